# Slurm alone: the plugin's pace, and jobs that it forgets.
import asyncio
import time

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

# What Slurm's plugin adds to the command of each job.
ONE_BY_ONE = "--executor slurm-jobstep --jobs 1"


def keep_pace():
    """Give Snakemake's Slurm plugin an executor that looks at all its jobs, at an even pace.

    The plugin (2.8) looks ever more seldom, every 3 minutes in the end, and is deaf meanwhile: each
    phase, each failure and Ctrl-C would wait for that. So its first pace is kept, and a shutdown is
    heard. Where Slurm gives no answer for a while, it neither hands back its jobs nor reports them:
    Snakemake would wait for them for ever. Its executor in a job (slurm-jobstep) does one thing at
    a time; the workers of a group wait for each other, so there Snakemake's own executor runs them.
    Nothing happens where the plugin is not installed, or another executor is used.
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

        def format_job_exec(self, job):
            command = super().format_job_exec(job)
            return command.replace(ONE_BY_ONE, "") if job.is_group() else command

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
