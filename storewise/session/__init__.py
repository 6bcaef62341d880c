"""The life of a run: leases, abort, live trials."""
