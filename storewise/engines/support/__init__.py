"""Helpers shared by engines: tables, keys, clients, installations, server specifications."""
