"""MongoDB: one server, replica sets, sharded clusters."""
