# Slurm alone: the plugin's pace, and jobs that it forgets.
import asyncio
import time

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry


def keep_pace():
    """Give Snakemake's Slurm plugin an executor that looks at all its jobs, at an even pace.

    The plugin (2.8) looks ever more seldom, every 3 minutes in the end, and is deaf meanwhile: each
    phase, each failure and Ctrl-C would wait for that. So its first pace is kept, and a shutdown is
    heard. Where Slurm gives no answer for a while, it neither hands back its jobs nor reports them:
    Snakemake would wait for them for ever. Nothing happens where the plugin is not installed, or
    another executor is used.
    """
    registry = ExecutorPluginRegistry()
    if not registry.is_installed("slurm"):
        return
    plugin = registry.get_plugin("slurm")

    class Steady(plugin.executor):
        reported = frozenset()

        async def check_active_jobs(self, active_jobs):
            kept, self.reported = set(), set()
            async for job in super().check_active_jobs(active_jobs):
                kept.add(id(job))
                yield job
            for job in active_jobs:
                if id(job) not in kept | self.reported:
                    yield job

        def report_job_success(self, job_info):
            self.reported |= {id(job_info)}
            super().report_job_success(job_info)

        def report_job_error(self, job_info, *arguments, **options):
            self.reported |= {id(job_info)}
            super().report_job_error(job_info, *arguments, **options)

        async def sleep(self):
            settings = self.workflow.executor_settings
            pace = settings.init_seconds_before_status_checks
            end = time.monotonic() + (pace or self.next_seconds_between_status_checks)
            while self.wait and time.monotonic() < end:
                await asyncio.sleep(0.5)

    plugin.executor = Steady


if workflow.is_main_process:
    keep_pace()
