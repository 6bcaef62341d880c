"""The engine contract: engines, clients, servers, queries."""
