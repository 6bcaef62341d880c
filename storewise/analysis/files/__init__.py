"""What lies in a directory of results, read as it is."""
