"""The SSEARCH outputs themselves, read anew for each question."""
