"""Clients at work: worker jobs, processes, threads, barriers."""
