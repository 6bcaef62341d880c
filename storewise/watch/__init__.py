"""Monitoring of a run, from the files in its directory of results."""
