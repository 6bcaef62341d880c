"""How a process or a server ended: by which signal, for lack of memory, on a full disk."""

import re
import subprocess

import pytest
from support.riak.recordings import recorded

from storewise.metrics import memory_kills
from storewise.metrics.memory_kills import MemoryKills, cgroup_file
from storewise.session.coordination.ending import (
    disk_full_line,
    host_fault,
    how_it_ended,
    log_tail,
    status_of,
)


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
    log = (
        "4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=41,uid=0\n"
        "3,1,2,-;Memory cgroup out of memory: Killed process 42 (python) total-vm:1kB\n"
    )
    monkeypatch.setattr(memory_kills, "_own_cgroup", lambda: events)
    monkeypatch.setattr(memory_kills, "HOST", host)
    monkeypatch.setattr(memory_kills, "kernel_log", lambda: log)
    before = MemoryKills.now()
    assert (before.cgroup, before.host) == (2, 5)
    assert before.since(42) == ""
    assert "which the kernel did not send" in how_it_ended(-9, before, 42)
    host.write_text("oom_kill 7\n")
    assert "killed 2 processes of this host" in before.since(7)
    assert before.since(42) == "the kernel killed it for lack of memory, says its log"
    events.write_text("oom_kill 3\n")
    said = f"killed a process of its cgroup for lack of memory meanwhile (oom_kill in {events}"
    assert said in before.since()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "ended with status 3"),
        (0, "ended with status 0"),
        (-99, "was ended by signal 99"),
        (-15, "was ended by SIGTERM"),
        (-11, "was ended by SIGSEGV, as a program is that crashes"),
        # Where the kernel does not count its kills, the message is only a guess.
        (-9, "was ended by SIGKILL; if nobody did it, the kernel did .*"),
    ],
)
def test_how_it_ended(status, words):
    assert re.fullmatch(words, how_it_ended(status, MemoryKills(None, None, None)))


def test_what_snakemake_tells_of_a_script():
    for code, status in ((-9, -9), (137, -9), (-34, -34), (1, 1), (255, 255), (None, None)):
        error = ValueError("else") if code is None else subprocess.CalledProcessError(code, "set x")
        text = f'CalledProcessError in file "rules/workload.smk", line 39:\n{error}\n  File "x"'
        assert status_of(text) == status


@pytest.mark.parametrize(
    "line",
    [
        'PANIC:  could not write to file "pg_wal/xlogtemp.12": No space left on device',
        "[ERROR] mariadbd: Disk full (./storewise/align.ibd); waiting for someone to free some",
        "[ERROR] InnoDB: preallocating 65536 bytes for file ./s/rna.ibd failed with error 28",
        '{"s":"E","c":"WT","msg":"WiredTiger error","attr":{"error":28,"message":'
        '"[1] __posix_file_write: handle-write: pwrite: No space left on device"}}',
        "org.apache.cassandra.io.FSWriteError: java.io.IOException: No space left on device",
    ],
)
def test_a_full_disk_is_seen_in_the_words_of_each_server(tmp_path, line):
    log = tmp_path / "server.log"
    assert disk_full_line(log) == ""
    log.write_text(f"starting\n{line}\nshutting down\n")
    assert disk_full_line(log) == line
    log.write_text("starting\n" + "x" * 400 + "\n")
    assert disk_full_line(log) == ""


def test_the_line_that_explains_comes_first_and_noise_not_at_all(tmp_path):
    log = tmp_path / "server.log"
    said = recorded("foreground output of node 1")["stdout"]
    why = recorded("cuttlefish by hand on a word where a number belongs")["stdout"]
    noise = [f"2026-11-22T21:20:12 [info] alarm {number} cleared" for number in range(20)]
    after = ["Crash dump is being written to: erl_crash.dump...done"]
    log.write_text("\n".join([said, why.strip(), *noise, *after]))
    assert log_tail(log).splitlines() == [*why.splitlines(), *after]
    log.write_text("\n".join([said, *noise]))
    assert log_tail(log).splitlines() == noise[-12:], "nothing explains"


def test_the_end_of_a_log_is_short_and_without_the_places_of_exceptions(tmp_path):
    log = tmp_path / "server.log"
    assert log_tail(log) == ""
    java = "\tat org.apache.Some$Class.go(Some.java:7) ~[a.jar:1]\n\t... 12 more\n"
    lines = [f"line {number}" for number in range(20)]
    log.write_text("\n".join(lines) + f"\n{java}java.io.IOException: {'x' * 400}\n")
    tail = log_tail(log).splitlines()
    assert tail == [*lines[-11:], f"java.io.IOException: {'x' * 279} ..."]
    # The end of a large log, and not the whole: what stands 32 KiB before it is not seen.
    log.write_text("No space left on device\n" + "y\n" * 20000)
    assert disk_full_line(log) == ""
    log.write_text("No space left on device\n" + "y\n" * 16000)
    assert disk_full_line(log) == "No space left on device"


@pytest.mark.parametrize(
    ("reason", "of_host"),
    [
        ("load.0: EC2 takes back host n7 (spot interruption at 2026-01-01T00:00:00Z)", True),
        ("load lost its host n7: Slurm says that it is gone (NODE_FAIL)", True),
        ("load was refused: Invalid partition name specified", True),
        ("node ended early: Slurm says: TIMEOUT: it had not ended in its wall time", True),
        (f"c.0 on host n7 {how_it_ended(-9, MemoryKills(None, None, None))}", True),
        (f"c.0 on host n7 {how_it_ended(-15, MemoryKills(None, None, None))}", True),
        (f"c.0 on host n7 {how_it_ended(-11, MemoryKills(None, None, None))}", False),
        (
            "c.0 was ended by SIGKILL, which the kernel did not send for lack of memory: a user,",
            True,
        ),
        ("c.0 was ended by SIGKILL: the kernel killed it for lack of memory, says its log", False),
        (
            "load ended early: it used more memory than it asked for: give its rule more mem_mb",
            False,
        ),
        ("data0: MongoDB: no mongod (looked on PATH, in $STOREWISE_MONGODB_BIN)", True),
        ("c.0: database is locked", False),
        ("data0: the server of PostgreSQL on host n7 ended with status 1", False),
    ],
)
def test_whether_the_store_is_to_blame(reason, of_host):
    assert host_fault(reason) == of_host
