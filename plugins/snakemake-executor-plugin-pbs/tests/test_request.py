"""What goes to PBS: names, requests, scripts."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import answer
from snakemake_executor_plugin_pbs import script
from snakemake_executor_plugin_pbs.commands import Done
from snakemake_executor_plugin_pbs.hosts import Host, hosts_of, megabytes, walltime
from snakemake_executor_plugin_pbs.request import (
    Request,
    RequestError,
    qsub_command,
    refusal,
    request_of,
    temporary,
    too_large,
    unique_name,
)
from snakemake_executor_plugin_pbs.settings import ExecutorSettings
from snakemake_interface_common.exceptions import WorkflowError

PLAIN = request_of("sort.a", 4, {"mem_mb": 2000, "runtime": 90}, ExecutorSettings())


def command(request: Request = PLAIN) -> list[str]:
    return qsub_command(request, "sort.a-0f12ab", Path("/l/a.log"), Path("/s"))


@pytest.mark.parametrize(
    ("name", "start"),
    [("sort.a b/c", "sort.a_b_c-"), ("1st", "j1st-"), ("x" * 99, "x" * 53 + "-"), ("#", "job-")],
)
def test_names_are_readable_and_unique(name: str, start: str) -> None:
    first, second = unique_name(name), unique_name(name)
    assert first.startswith(start)
    assert len(first) == len(start) + 6 <= 60
    assert first != second


def test_sizes_and_times() -> None:
    sizes = ["4gb", "1048576kb", "131072kw", "many"]
    assert [megabytes(size) for size in sizes] == [4096, 1024, 1024, None]
    assert walltime(90) == "01:30:00"


def test_the_command_of_a_job() -> None:
    assert command() == [
        *("qsub", "-N", "sort.a-0f12ab", "-r", "n", "-m", "n", "-j", "oe", "-k", "oed"),
        *("-S", "/bin/sh", "-o", "/l/a.log", "-l", "select=1:ncpus=4:mem=2000mb"),
        *("-l", "walltime=01:30:00", "-l", "place=free", "/s"),
    ]


def test_resources_of_a_rule_override_the_settings() -> None:
    settings = ExecutorSettings(queue="slow", account="me", select="big=1", extra="-W 'a=b c'")
    request = request_of("a", 1, {"nodes": 3, "pbs_queue": "fast", "pbs_name": "mine"}, settings)
    assert request.name == "mine"
    line = command(request)
    assert line[line.index("-q") :] == ["-q", "fast", "-A", "me", "-W", "a=b c", "/s"]
    assert "select=3:ncpus=1:big=1" in line
    assert "place=scatter" in line
    assert not any("walltime" in word for word in line)
    assert "place=excl" in command(replace(request, place="excl"))


def test_gpus_and_memory_per_cpu() -> None:
    asked = {"gpu": 2, "mem_mb": 100, "mem_mb_per_cpu": 1500}
    request = request_of("a", 4, asked, ExecutorSettings(select="big=1"))
    assert "select=1:ncpus=4:mem=6000mb:ngpus=2:big=1" in command(request)
    # GPUs in pbs_select replace the resource `gpu`.
    own = request_of("a", 1, {"gpu": 2, "pbs_select": "ngpus=1"}, ExecutorSettings())
    assert "select=1:ncpus=1:ngpus=1" in command(own)


def test_values_of_a_wrong_kind() -> None:
    with pytest.raises(RequestError, match="mem_mb: 'much' is not a number"):
        request_of("a", 1, {"mem_mb": "much"}, ExecutorSettings())
    with pytest.raises(RequestError, match="pbs_extra"):
        request_of("a", 1, {"pbs_extra": "'"}, ExecutorSettings())
    with pytest.raises(WorkflowError, match="pbs-lost-after must be at least 1"):
        ExecutorSettings(lost_after=0)
    with pytest.raises(WorkflowError, match="pbs-extra"):
        ExecutorSettings(extra="'")


def test_a_job_that_no_host_can_run() -> None:
    hosts = hosts_of(answer("nodes").stdout)
    assert too_large(PLAIN, hosts) is None
    huge = replace(PLAIN, threads=640)
    assert "640 CPUs and 2000 MB of memory on one host" in str(too_large(huge, hosts))
    # The message leaves out what the rule does not ask for.
    assert "640 CPUs on one host" in str(too_large(replace(huge, memory=None), hosts))
    assert too_large(huge, []) is None
    assert too_large(huge, [*hosts, Host("x", None, None)]) is None


def test_temporary_errors_of_qsub() -> None:
    assert temporary(answer("server down qsub").stderr)
    assert temporary("qsub: no answer within 60 s (connection timed out)")
    for title in ("unknown queue", "resource limit", "job limit"):
        assert not temporary(answer(title).stderr)
    assert Done(2, "", answer("unknown option").stderr).error == "qsub: invalid option -- 'Z'"


@pytest.mark.parametrize(
    ("title", "advice"),
    [("resource limit", "qstat -Qf"), ("job limit", "--jobs"), ("unknown queue", "pbs_queue")],
)
def test_a_refusal_says_what_to_do(title: str, advice: str) -> None:
    text = refusal(Done(1, "", answer(title).stderr).error, command())
    error, _, rest = text.partition(". Command: qsub -N sort.a-0f12ab")
    assert error.startswith("qsub: ")
    assert advice in rest.rpartition("; ")[2]


def test_the_environment_of_jobs() -> None:
    environment = {
        "PATH": "/bin",
        "A": "it's\ntwo lines",
        "PBS_JOBID": "1",
        "TMPDIR": "/t",
        "SNAKEMAKE_PROFILE": "p",
        "BASH_FUNC_x%%": "() {}",
        "a b": "c",
    }
    assert script.exported(environment) == {"A": "it's\ntwo lines", "PATH": "/bin"}


@pytest.mark.parametrize(
    ("content", "printed", "status"),
    [
        ('printf "%s" "$A"; pwd; exit 3\n', "it's\n{directory}\n", 3),
        # PBS signals every process of a job that it ends; the program may finish in order.
        ("kill -TERM 0; echo in order\n", "in order\n", 0),
    ],
)
def test_a_script_marks_its_start_and_its_exit_status(
    tmp_path: Path, content: str, printed: str, status: int
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    path = tmp_path / "script"
    path.write_text(script.job_script(content, marks, "a", {"A": "it's\n"}, tmp_path))
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (status, printed.format(directory=tmp_path))
    assert script.exit_mark(marks, "a").read_text() == f"{status}\n"
    assert script.start_mark(marks, "a").exists()
