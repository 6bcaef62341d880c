"""Coordination of the jobs of a run: leases, live files, barriers."""
