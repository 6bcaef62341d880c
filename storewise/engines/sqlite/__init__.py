"""SQLite in the client's process."""
