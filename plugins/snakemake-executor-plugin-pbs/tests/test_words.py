"""Names, sizes, dialects, requests, scripts, arrays: what goes to PBS."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import answer
from snakemake_executor_plugin_pbs import arrays, messages, names, script, sizes
from snakemake_executor_plugin_pbs.dialects import OPENPBS, PBSPRO, TORQUE, dialect_of
from snakemake_executor_plugin_pbs.nodes import Host, hosts_of
from snakemake_executor_plugin_pbs.request import (
    Form,
    RequestError,
    first_words,
    ignored_resources,
    no_direct,
    other_host,
    passing,
    qsub_words,
    refused,
    request_of,
    too_large,
)
from snakemake_executor_plugin_pbs.settings import ExecutorSettings
from snakemake_interface_common.exceptions import WorkflowError

PLAIN = request_of("sort.a", 4, {"mem_mb": 2000, "runtime": 90}, ExecutorSettings())


def words(request=PLAIN, dialect=OPENPBS, **form):  # type: ignore[no-untyped-def]
    return qsub_words(request, Form(dialect, **form), "sort.a-0f12ab", Path("/l/a.log"), Path("/s"))


@pytest.mark.parametrize(
    ("said", "dialect"),
    [
        (answer("version").stdout, OPENPBS),
        ("pbs_version = 19.1.3", OPENPBS),
        ("pbs_version = 2022.1.3.20230206144823", PBSPRO),
        ("pbs_version = PBSPro_13.1.0.160576", PBSPRO),
        ("Version: 6.1.2\nCommit: 661e092552de43a785c15d39a3634a541d86898e\n", TORQUE),
        ("no idea", None),
    ],
)
def test_dialects(said: str, dialect: str | None) -> None:
    assert dialect_of(said) == dialect


def test_names_end_with_their_token_and_begin_readable() -> None:
    assert names.clean("sort.a b/c", "0f12ab", OPENPBS) == "sort.a_b_c-0f12ab"
    assert names.clean("1st", "0f12ab", OPENPBS) == "j1st-0f12ab"
    assert len(names.clean("x" * 99, "0f12ab", OPENPBS)) == 60
    assert names.clean("sorting.everything", "0f12ab", TORQUE) == "sorting.-0f12ab"
    assert names.clean("###", "0f12ab", OPENPBS) == "job-0f12ab"


def test_the_name_of_an_array() -> None:
    assert names.common(["sort.a", "sort.b"], "sort") == "sort"
    assert names.common(["load.w4.1", "load.w4.2"], "load") == "load.w4"
    assert names.common(["a", "b"], "sort") == "sort"
    assert names.common(["same", "same"], "sort") == "same"


def test_sizes_and_times() -> None:
    assert sizes.megabytes("4gb") == 4096
    assert sizes.megabytes("1048576kb") == 1024
    assert sizes.megabytes("131072kw") == 1024
    assert sizes.megabytes("many") is None
    assert sizes.walltime(90) == "01:30:00"
    assert sizes.seconds("01:30:05") == 5405
    assert sizes.seconds("") is None


def test_the_words_of_qsub() -> None:
    assert words() == [
        *("qsub", "-N", "sort.a-0f12ab", "-r", "n", "-m", "n", "-j", "oe", "-k", "oed"),
        *("-S", "/bin/sh", "-o", "/l/a.log", "-l", "select=1:ncpus=4:mem=2000mb"),
        *("-l", "walltime=01:30:00", "-l", "place=free", "/s"),
    ]


def test_what_a_rule_says_wins_over_the_settings() -> None:
    settings = ExecutorSettings(queue="slow", account="me", select="big=1", extra="-W 'a=b c'")
    request = request_of("a", 1, {"nodes": 3, "pbs_queue": "fast", "pbs_name": "mine"}, settings)
    assert request.name == "mine"
    line = words(request)
    assert line[line.index("-q") :] == ["-q", "fast", "-A", "me", "-W", "a=b c", "/s"]
    assert "select=3:ncpus=1:big=1" in line
    assert "place=scatter" in line
    assert not any("walltime" in word for word in line)
    assert "place=excl" in words(replace(request, place="excl"))


def test_the_words_for_torque() -> None:
    line = words(replace(PLAIN, nodes=2, place="excl", select="bigmem"), TORQUE, tasks=3)
    assert line[line.index("/l/a.log") + 1 :] == [
        *("-l", "nodes=2:ppn=4:bigmem", "-l", "mem=4000mb", "-l", "walltime=01:30:00", "-n"),
        *("-t", "0-2", "/s"),
    ]
    assert "-k" not in line


def test_an_array_of_openpbs_must_be_rerunnable() -> None:
    assert "non-rerunable" in answer("array not rerunnable").stderr
    line = words(tasks=3)
    assert line[line.index("-r") + 1] == "y"
    assert line[line.index("-J") + 1] == "0-2"


def test_older_servers_do_not_write_logs_directly() -> None:
    assert "-k" not in words(direct=False)
    assert no_direct("qsub: illegal -k value")
    assert not no_direct(answer("unknown queue").stderr)


def test_resources_of_a_wrong_kind() -> None:
    with pytest.raises(RequestError, match="mem_mb: 'much' is not a number"):
        request_of("a", 1, {"mem_mb": "much"}, ExecutorSettings())
    with pytest.raises(RequestError, match="pbs_extra"):
        request_of("a", 1, {"pbs_extra": "'"}, ExecutorSettings())
    with pytest.raises(WorkflowError, match="array-limit"):
        ExecutorSettings(array_limit=1)
    with pytest.raises(WorkflowError, match="not known"):
        ExecutorSettings(dialect="lsf")


def test_what_rules_ask_for_in_the_words_of_other_executors() -> None:
    asked = {"gpu": 2, "mem_mb": 100, "mem_mb_per_cpu": 1500, "gpu_model": "a100", "tasks": 4}
    request = request_of("a", 4, asked, ExecutorSettings(select="big=1"))
    assert "select=1:ncpus=4:mem=6000mb:ngpus=2:big=1" in words(request)
    assert "nodes=1:ppn=4:gpus=2:big=1" in words(request, TORQUE)
    # GPUs in pbs_select replace the resource `gpu`.
    own = request_of("a", 1, {"gpu": 2, "pbs_select": "ngpus=1"}, ExecutorSettings())
    assert "select=1:ncpus=1:ngpus=1" in words(own)
    assert ignored_resources(asked) == ["gpu_model", "tasks"]
    assert (
        ignored_resources({"nodes": 4, "tasks": 4, "mem_mb": 1, "opening": 1, "slurm_extra": "x"})
        == []
    )


def test_a_job_that_no_host_can_run() -> None:
    hosts = hosts_of(answer("nodes json").stdout)
    assert too_large(PLAIN, hosts) is None
    why = too_large(replace(PLAIN, threads=640), hosts)
    assert why is not None
    assert "asks for 640 CPUs and 2000 MB of memory on one host" in why
    # The message leaves out what the rule does not ask for.
    why = too_large(replace(PLAIN, threads=640, memory=None), hosts)
    assert why is not None
    assert "asks for 640 CPUs on one host" in why
    assert too_large(replace(PLAIN, threads=640), []) is None
    assert too_large(replace(PLAIN, threads=640), [*hosts, Host("x", None, None)]) is None


def test_lost_hosts_are_avoided_when_they_are_up_again() -> None:
    hosts = [
        Host("n1", 8, 9000),
        Host("n2", 8, 9000, assigned_cpus=6),
        Host("n3", 8, 9000, assigned_cpus=2, has={"ngpus": "2", "kind": "old,big"}),
        Host("n4", 2, 9000),
        Host("n5", 8, 9000, reserved=True),
    ]
    lost = frozenset({"n1"})
    assert other_host(PLAIN, hosts, lost) == "n3"
    assert other_host(PLAIN, [replace(hosts[0], up=False), *hosts[1:]], lost) is None
    assert other_host(replace(PLAIN, select="kind=big:ngpus=1"), hosts, lost) == "n3"
    assert other_host(replace(PLAIN, select="ngpus=4"), hosts, lost) is None
    assert other_host(replace(PLAIN, gpus=4), hosts, lost) is None
    assert other_host(replace(PLAIN, select="host=n1"), hosts, lost) is None
    assert other_host(replace(PLAIN, nodes=2), hosts, lost) is None
    assert "select=1:ncpus=4:mem=2000mb:host=n3" in words(host="n3")


def test_which_refusals_pass() -> None:
    assert passing(answer("server down qsub").stderr)
    assert passing("qsub: no answer within 60 s (connection timed out)")
    for title in ("unknown queue", "resource limit", "job limit"):
        assert not passing(answer(title).stderr)
    assert first_words(answer("unknown option").stderr) == "qsub: invalid option -- 'Z'"


@pytest.mark.parametrize(
    ("title", "advice"),
    [("resource limit", "qstat -Qf"), ("job limit", "--jobs"), ("unknown queue", "pbs_queue")],
)
def test_a_refusal_says_what_may_help(title: str, advice: str) -> None:
    text = refused(PLAIN, first_words(answer(title).stderr), words())
    found = messages.refused_of(text)
    assert found is not None
    assert found.name == "sort.a"
    assert found.command.startswith("qsub -N sort.a-0f12ab")
    assert advice in found.advice


def test_which_jobs_go_together() -> None:
    jobs = [("a", 1), ("b", None), ("c", 1), ("d", 2), ("e", 1)]
    assert arrays.chunks(jobs, 2) == (["b", "e", "d"], [["a", "c"]])
    assert arrays.chunks(jobs, 9) == (["b", "d"], [["a", "c", "e"]])


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


def run_script(text: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "script"
    path.write_text(text)
    return subprocess.run(
        ["/bin/sh", path], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_a_script_marks_its_start_and_its_exit_status(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    text = script.single('printf "%s" "$A"; pwd; exit 3\n', marks, "a", {"A": "it's\n"}, tmp_path)
    done = run_script(text, tmp_path)
    assert (done.returncode, done.stdout) == (3, f"it's\n{tmp_path}\n")
    assert script.exit_mark(marks, "a").read_text() == "3\n"
    assert script.start_mark(marks, "a").exists()


def test_a_script_waits_for_its_program_when_pbs_ends_it(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    text = script.single("kill -TERM 0; echo in order\n", marks, "a", {}, tmp_path)
    path = tmp_path / "script"
    path.write_text(text)
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, start_new_session=True)
    assert done.stdout == "in order\n"
    assert script.exit_mark(marks, "a").read_text() == "0\n"


def test_a_task_runs_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    text = script.task("echo at work; exit 0\n", marks, "a.1", None)
    (tmp_path / "task.1").write_text(text)
    whole = script.array(tmp_path, OPENPBS, {}, tmp_path)
    first = run_script(whole, tmp_path, PBS_ARRAY_INDEX="1")
    assert (first.returncode, first.stdout) == (0, "at work\n")
    again = run_script(whole, tmp_path, PBS_ARRAY_INDEX="1")
    assert again.returncode == script.AGAIN
    assert script.AGAIN_WORDS in again.stdout
