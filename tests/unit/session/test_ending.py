"""Counts of the kernel's kills for lack of memory."""

import re
import subprocess

import pytest

from storewise.metrics.memory_kills import MemoryKills, cgroup_file
from storewise.session.coordination.ending import how_it_ended, status_of


def test_the_file_that_counts(tmp_path):
    v1 = "9:name=systemd:/\n4:memory:/jobs/7\n0::/\n"
    assert cgroup_file(v1, tmp_path) == tmp_path / "memory/jobs/7/memory.oom_control"
    v2 = "0::/user.slice/job 7\n"
    assert cgroup_file(v2, tmp_path) == tmp_path / "user.slice/job 7/memory.events"
    assert cgroup_file("", tmp_path) is cgroup_file("1:cpu:/a\n", tmp_path) is None


def test_counts_that_grow_are_told(tmp_path, monkeypatch):
    events, host = tmp_path / "memory.events", tmp_path / "vmstat"
    events.write_text("oom 3\noom_kill 2\noom_group_kill 0\n")
    host.write_text("nr_free_pages 7\noom_kill 5\n")
    monkeypatch.setattr("storewise.metrics.memory_kills._own_cgroup", lambda: events)
    monkeypatch.setattr("storewise.metrics.memory_kills.HOST", host)
    monkeypatch.setattr("storewise.metrics.memory_kills.kernel_log", lambda: LOG)
    before = MemoryKills.now()
    assert (before.cgroup, before.host) == (2, 5)
    assert before.since(42) == ""
    assert "which the kernel did not send" in how_it_ended(-9, before, 42)
    host.write_text("oom_kill 7\n")
    assert "killed 2 processes of this host" in before.since(7)
    assert before.since(42) == "the kernel killed it for lack of memory, says its log"
    events.write_text("oom_kill 3\n")
    assert f"killed a process of its cgroup for lack of memory meanwhile (oom_kill in {events}" in (
        before.since()
    )


LOG = (
    "4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=41,uid=0\n"
    "3,1,2,-;Memory cgroup out of memory: Killed process 42 (python) total-vm:1kB\n"
)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "ended with status 3"),
        (0, "ended with status 0"),
        (-99, "was ended by signal 99"),
        (-15, "was ended by SIGTERM"),
        (-11, "was ended by SIGSEGV, as a program is that crashes"),
        # Where nothing is counted nothing is claimed.
        (-9, "was ended by SIGKILL, .*if nobody did it, the kernel did.*"),
    ],
)
def test_how_it_ended(status, words):
    assert re.fullmatch(words, how_it_ended(status, MemoryKills(None, None, None)))


def test_what_snakemake_tells_of_a_script():
    for code, status in ((-9, -9), (137, -9), (-34, -34), (1, 1), (255, 255), (None, None)):
        error = ValueError("else") if code is None else subprocess.CalledProcessError(code, "set x")
        text = f'CalledProcessError in file "rules/workload.smk", line 39:\n{error}\n  File "x"'
        assert status_of(text) == status
