"""DuckDB in the client's process."""
