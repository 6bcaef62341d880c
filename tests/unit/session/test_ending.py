"""Counts of the kernel's kills for lack of memory."""

import signal
import subprocess

import pytest

from storewise.metrics.memory_kills import MemoryKills, cgroup_file
from storewise.session.coordination.ending import how_it_ended, status_of

V1 = "9:name=systemd:/\n4:memory:/jobs/7\n0::/\n"
V2 = "0::/user.slice/job 7\n"


@pytest.mark.parametrize(
    ("lines", "file"),
    [
        (V1, "memory/jobs/7/memory.oom_control"),
        (V2, "user.slice/job 7/memory.events"),
        ("", None),
        ("1:cpu:/a\n", None),
    ],
)
def test_the_file_that_counts(lines, file, tmp_path):
    assert cgroup_file(lines, tmp_path) == (tmp_path / file if file else None)


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


def test_where_nothing_is_counted_nothing_is_claimed():
    unknown = MemoryKills(None, None, None)
    assert "if nobody did it, the kernel did" in how_it_ended(-signal.SIGKILL, unknown)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (subprocess.CalledProcessError(-9, "set -e; python x"), -9),
        (subprocess.CalledProcessError(137, "set -e; python x"), -9),
        (subprocess.CalledProcessError(-34, "x"), -34),
        (subprocess.CalledProcessError(1, "x"), 1),
        (subprocess.CalledProcessError(255, "x"), 255),
        (ValueError("something else"), None),
    ],
)
def test_what_snakemake_tells_of_a_script(error, status):
    text = f'CalledProcessError in file "rules/workload.smk", line 39:\n{error}\n  File "x"'
    assert status_of(text) == status
