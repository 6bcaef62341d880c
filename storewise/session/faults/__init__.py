"""Faults injected into servers: kill, restart, slow."""
