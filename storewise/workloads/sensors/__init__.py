"""Workload ``measures``: sensor readings, loaded and queried as in log analysis."""
