"""PostgreSQL, sharded by the client."""
