"""Snakemake's side: submits jobs to PBS and tells Snakemake how they ended."""

from __future__ import annotations

from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor


class Executor(RemoteExecutor):
    """Submits each job with qsub."""
