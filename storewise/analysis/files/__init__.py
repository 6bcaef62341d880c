"""Readers of the files in a directory of results."""
