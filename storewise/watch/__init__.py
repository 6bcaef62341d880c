"""A run as it goes, from the files that it leaves."""
