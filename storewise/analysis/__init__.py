"""Pure functions on the result table."""
