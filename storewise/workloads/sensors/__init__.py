"""Measurements of sensors, asked like a log."""
