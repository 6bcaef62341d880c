"""Valkey and Redis: documents in memory, one server or a cluster of hash slots."""
