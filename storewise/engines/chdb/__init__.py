"""ClickHouse in the client's process (chdb)."""
