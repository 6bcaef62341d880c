# Slurm alone: the plugin's pace.
import asyncio
import time

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry


def keep_pace():
    """Give Snakemake's Slurm plugin an executor that looks at its jobs at an even pace.

    The plugin looks ever more seldom, every 3 minutes in the end, and is deaf meanwhile: each
    phase, each failure and Ctrl-C would wait for that. So its first pace is kept, and a shutdown is
    heard. Nothing happens where the plugin is not installed, or another executor is used.
    """
    registry = ExecutorPluginRegistry()
    if not registry.is_installed("slurm"):
        return
    plugin = registry.get_plugin("slurm")

    class Steady(plugin.executor):
        async def sleep(self):
            settings = self.workflow.executor_settings
            pace = settings.init_seconds_before_status_checks
            end = time.monotonic() + (pace or self.next_seconds_between_status_checks)
            while self.wait and time.monotonic() < end:
                await asyncio.sleep(0.5)

    plugin.executor = Steady


if workflow.is_main_process:
    keep_pace()
