"""MySQL and MariaDB, sharded by the client."""
