"""A server process and its guard."""
