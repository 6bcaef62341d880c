"""The load generator: worker jobs, client processes, threads, barriers."""
