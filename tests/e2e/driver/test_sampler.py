"""The host sampler and the canary against work whose size is known."""

import os
import socket
import subprocess
import sys

import psutil
import pytest
from support.sampling import Seconds, a_tick_later
from support.waiting import wait_until

from storewise.metrics.sampler import ProcessGroup, Watched
from storewise.metrics.schema import METRICS

#: Uses so many s of processor time, says so and waits.
BURN = """
import time
start = time.process_time()
while time.process_time() - start < {}: pass
print("burnt", flush=True)
input()
"""


def values(samples, metric):
    return [s.value for s in samples if s.metric == metric]


def used(process):
    """Processor time of a process so far, s."""
    times = process.cpu_times()
    return times.user + times.system


@pytest.fixture
def sampled(tmp_path):
    """A step of 2.5 s in which a process uses processor time and a store gets 3 MiB; the samples
    and what the process has used."""
    store = tmp_path / "store"
    store.mkdir()
    code = "print('ready', flush=True)\ninput()\n" + BURN.format(0.3)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as child:
        process = psutil.Process(child.pid)
        assert child.stdout.readline() == b"ready\n"
        wait_until(lambda: process.status() == psutil.STATUS_SLEEPING, 30, "it waits for a line")
        step = Seconds(
            Watched({0: child.pid}, embedded=True, store=(store,), disk_path=store),
            phase="write",
            worker=3,
            step=1,
        )
        before = used(process)
        step.start()
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"burnt\n"
        with (store / "data").open("wb") as file:
            file.write(os.urandom(3 << 20))
            os.fsync(file.fileno())
        wait_until(lambda: process.status() == psutil.STATUS_SLEEPING, 30, "it waits again")
        step.spend(1.0)
        step.spend(1.0)
        a_tick_later()
        step.time.spend(0.5)
        samples = step.stop()
        assert step.waits == [1.0, 1.0, 1.0]
        burnt = used(process) - before
        child.communicate(b"\n")
    return samples, burnt


def test_a_step_is_sampled_on_whole_seconds(sampled):
    samples, _ = sampled
    for metric in ("cpu_user", "memory_used", "client_cpu", "store_bytes", "sample_length"):
        assert [s.second for s in samples if s.metric == metric] == [0, 1, 2], metric
    assert values(samples, "sample_length") == [1.0, 1.0, 0.5], "the partial one says so"
    assert all(s.step == 1 and s.phase == "write" for s in samples)
    assert all(METRICS[s.metric] == s.unit for s in samples)


def test_a_host_that_sleeps_over_boundaries_takes_one_sample_for_all():
    step = Seconds(Watched({}), phase="read", worker=0, step=0)
    step.start()
    step.spend(3.25)
    step.spend(0.75)
    samples = step.stop()
    assert step.waits == [1.0, 0.75, 1.0], "up to its own boundary again"
    lengths = [(s.second, s.value) for s in samples if s.metric == "sample_length"]
    assert lengths == [(0, 3.25), (3, 0.75)], "a step that ends on a boundary has no last one"


def test_processor_time_and_bytes_are_those_that_were_used(sampled):
    samples, burnt = sampled
    assert burnt > 0.2
    assert sum(values(samples, "client_cpu")) == pytest.approx(burnt)
    assert values(samples, "store_cpu") == values(samples, "client_cpu")
    assert min(values(samples, "client_rss")) > 1 << 20
    kinds = ("cpu_user", "cpu_system", "cpu_iowait", "cpu_idle", "cpu_steal")
    for second in range(3):
        result = [s.value for s in samples if s.metric in kinds and s.second == second]
        assert sum(result) == pytest.approx(100)

    assert values(samples, "store_bytes")[-1] == pytest.approx(3 << 20, rel=0.01)
    assert all(0 <= busy <= 100 for busy in values(samples, "disk_busy"))
    metrics = {s.metric for s in samples if s.worker == 3}
    assert metrics == {"client_cpu", "client_rss", "store_cpu", "store_rss", "store_bytes"}


def test_loopback_is_kept_apart():
    step = Seconds(Watched({}), phase="read", worker=0, step=0)
    step.start()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        peer, _ = server.accept()
        with peer:
            client.sendall(b"x" * 100_000)
            got = 0
            while got < 100_000:
                got += len(peer.recv(65_536))
    step.time.spend(0.5)
    samples = step.stop()
    assert values(samples, "sample_length") == [0.5]
    (rate,) = values(samples, "loopback")
    assert rate * 0.5 >= 100_000


def test_a_tree_counts_children_that_come_later():
    burn = BURN.format(0.3)
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\ninput()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as parent:
        group = ProcessGroup([parent.pid])
        assert parent.stdout.readline() == b"burnt\n"
        assert group.sample()[0] >= 0.25
        parent.communicate(b"\n\n")
    assert group.sample() == (0.0, 0)
