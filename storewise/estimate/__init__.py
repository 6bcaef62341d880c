"""Estimates of a study's time, hosts and cost."""
