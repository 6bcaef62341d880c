"""A Snakemake executor for OpenPBS and PBS Pro."""

from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_pbs.executor import Executor
from snakemake_executor_plugin_pbs.settings import ExecutorSettings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    # The script of a job carries the whole environment.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    # `status_interval` is kept by the executor itself.
    init_seconds_before_status_checks=0,
)
