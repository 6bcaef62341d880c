"""How the jobs of a run know of each other: leases, live files, barriers."""
