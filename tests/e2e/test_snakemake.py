"""What the rules use of Snakemake's insides, each part by itself: a failure here names what a new
version has changed. docs/architecture.md says what each is used for.

The first four are changed by the rules. Their tests fail, too, where Snakemake no longer needs it:
then the change goes.
"""

from __future__ import annotations

import inspect
import logging
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.api  # before its parts, which import each other
import snakemake.script
from snakemake.common import get_function_params, overwrite_function_params
from snakemake.dag import DAG
from snakemake.jobs import GroupJob, Job
from snakemake.logging import logger
from snakemake.modules import WorkflowModifier
from snakemake.persistence.file import FilePersistence
from snakemake.resources import Resource
from snakemake.scheduling import job_scheduler
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.types import DAGSettings, ResourceSettings
from snakemake.sourcecache import LocalSourceFile
from snakemake.workflow import Workflow
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
from snakemake_interface_logger_plugins.common import LogEvent

from storewise.session.coordination.ending import status_of


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def run(place: Path, snakefile: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (place / "Snakefile").write_text(snakefile)
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


# ---- Changed by the rules -------------------------------------------------------------------


def test_1_snakemake_reads_the_source_of_a_script_for_each_job(tmp_path: Path) -> None:
    """rules/common.smk replaces `snakemake.script.get_source`: it would be read once for each of
    10,000 jobs of a plan."""
    names = ["path", "sourcecache", "basedir", "wildcards", "params"]
    assert parameters(snakemake.script.get_source) == names
    (tmp_path / "a.py").write_text("first")
    cache = SimpleNamespace(open=lambda file: (tmp_path / "a.py").open(), get_path=str)
    path = LocalSourceFile(str(tmp_path / "a.py"))
    assert snakemake.script.get_source(path, cache)[1] == "first"
    (tmp_path / "a.py").write_text("second")
    assert snakemake.script.get_source(path, cache)[1] == "second", "it keeps sources by itself"


def test_2_snakemake_looks_at_a_function_s_parameters_at_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """rules/common.smk tells it those of `Resource.evaluate`, which it calls for each resource of
    each job."""
    assert "get_function_params" in inspect.getsource(sys.modules["snakemake.rules"])
    looks: list[object] = []
    monkeypatch.setattr(
        inspect, "signature", lambda f: looks.append(f) or SimpleNamespace(parameters={})
    )

    def function(wildcards: object) -> None: ...

    for _ in range(2):
        get_function_params(function)
    assert len(looks) == 2, "it keeps them by itself"
    overwrite_function_params(function, ["wildcards"])
    assert get_function_params(function) == ["wildcards"] and len(looks) == 2
    assert callable(Resource("threads", 1).evaluate)


def test_3_the_slurm_plugin_looks_ever_more_seldom_and_forgets_jobs() -> None:
    """rules/slurm.smk puts a subclass of the plugin's executor into the registry."""
    assert hasattr(ExecutorPluginRegistry().get_plugin("slurm"), "executor")
    # Not that of the registry, which a workflow in this process may have replaced.
    executor = import_module("snakemake_executor_plugin_slurm").Executor
    assert issubclass(executor, RemoteExecutor)
    assert parameters(executor.check_active_jobs) == ["self", "active_jobs"]
    assert parameters(RemoteExecutor.sleep) == ["self"]
    for name in ("report_job_success", "report_job_error", "next_seconds_between_status_checks"):
        assert hasattr(executor, name), name
    source = inspect.getsource(executor.check_active_jobs)
    assert "max_sleep_time = 180" in source, "it looks at an even pace by itself"
    # Jobs of a group would start one after another, and wait for each other.
    arguments = inspect.getsource(executor.additional_general_args)
    assert '"--executor slurm-jobstep --jobs 1"' in arguments, "rules/slurm.smk removes it"


def test_4_a_local_run_needs_a_number_of_cores(tmp_path: Path) -> None:
    """rules/run.smk sets it, so that plain `snakemake` runs."""
    assert ResourceSettings().cores is None and ResourceSettings().nodes is None
    done = run(tmp_path, "rule a:\n    shell: 'true'\n")
    assert done.returncode and "cores have to be specified" in done.stderr, "it has a default"
    change = "workflow.resource_settings.cores = 1\nworkflow.register_resource('_cores', 1)\n"
    done = run(tmp_path, f"{change}rule a:\n    shell: 'true'\n")
    assert done.returncode == 0, done.stderr


# ---- Only used ------------------------------------------------------------------------------


def test_records_of_the_log_have_their_events() -> None:
    """What `Events` of rules/run.smk reads; the fields are seen by tests/faults/workflow."""
    assert isinstance(logger, logging.Logger)
    for name in (
        *("WORKFLOW_STARTED", "RESOURCES_INFO", "JOB_INFO", "JOB_FINISHED", "JOB_ERROR"),
        *("GROUP_INFO", "GROUP_ERROR", "ERROR"),
    ):
        assert hasattr(LogEvent, name), name
    for function, fields in (
        (Job.log_info, ("jobid=", "wildcards=")),
        (Job.get_log_error_info, ("rule_name=", "rule_msg=", "jobid=", "output=", "log=")),
        (GroupJob.log_info, ("group_id=", "jobs=")),
        (GroupJob.log_error, ("job_error_info=",)),
        (JobScheduler._finish_jobs, ("job_id=",)),
    ):
        source = inspect.getsource(function)
        assert not [field for field in fields if field not in source], function.__qualname__


def test_events_come_in_their_order() -> None:
    """The start before the plan, and resources when the handler of SIGTERM is set."""
    source = inspect.getsource(Workflow.execute)
    places = [
        source.index(words)
        for words in (
            "LogEvent.WORKFLOW_STARTED",
            "self._executor_plugin = ",
            "self._build_dag()",
            "self.persistence.lock()",
            "JobScheduler(",
            "LogEvent.RESOURCES_INFO",
            "self._onstart(",
        )
    ]
    assert places == sorted(places)
    assert "signal.signal(signal.SIGTERM" in inspect.getsource(JobScheduler.__init__)


def test_the_handler_of_sigterm_takes_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """rules/run.smk calls it in a thread of its own for that reason."""
    assert "with self._lock" in inspect.getsource(JobScheduler.exit_gracefully)
    assert job_scheduler.signal is signal


def test_a_script_s_exit_status_is_in_the_message_of_its_error() -> None:
    for code, status in (("exit 3", 3), ("kill -9 $$", -9)):
        with pytest.raises(subprocess.CalledProcessError) as error:
            subprocess.run(code, shell=True, check=True)
        assert status_of(str(error.value)) == status


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (
            Workflow,
            "dryrun executor_plugin is_main_process local_exec nodes current_basedir "
            "register_resource persistence dag modifier",
        ),
        (WorkflowModifier, "is_main_snakefile modify_path"),
        (LocalSourceFile, "get_path_or_uri"),
        (DAG, "needrun_jobs"),
        (Job, "wildcards_dict threads"),
        (DAGSettings(), "targets"),
        (ResourceSettings(), "overwrite_resources cores"),
        (Resource("a", 1), "raw value"),
    ],
)
def test_a_name_that_is_used_is_there(owner: object, names: str) -> None:
    assert [name for name in names.split() if not hasattr(owner, name)] == []


def test_files_of_a_lock_are_known() -> None:
    """A lease names them, so that those of a killed run can be removed."""
    assert "self._lockfile" in inspect.getsource(FilePersistence.__init__)


def test_hooks_are_functions_of_a_module() -> None:
    """Another workflow calls them: ``onstart: storewise.onstart()``."""
    assert parameters(Workflow.onstart) == ["self", "func"]
    for hook in (Workflow.onstart, Workflow.onsuccess, Workflow.onerror):
        assert f'self.globals["{hook.__name__}"]' in inspect.getsource(hook)
