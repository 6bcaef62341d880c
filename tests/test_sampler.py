"""The host sampler and the canary against work whose size is known."""

import json
import os
import socket
import subprocess
import sys
from queue import Queue

import psutil
import pytest
from fake_time import FakeTime
from harness import wait_until

from storewise.errors import StorewiseError
from storewise.metrics import host
from storewise.metrics.canary import run_canary
from storewise.metrics.sampler import ProcessGroup, Sampler, Watched, elect
from storewise.metrics.schema import METRICS

#: Uses so many s of processor time, says so and waits.
BURN = """
import time
while time.process_time() < {}: pass
print("burnt", flush=True)
input()
"""


def values(samples, metric):
    return [s.value for s in samples if s.metric == metric]


def a_tick_later():
    """When the kernel has counted what has been since."""
    counted = psutil.cpu_times()
    wait_until(lambda: psutil.cpu_times() != counted, 30, "a tick of the kernel")


class Seconds:
    """A sampler in a time that passes when the test says so."""

    def __init__(self, watched, **names):
        self.time = FakeTime()
        self.waits = []
        self._asked, self._answers = Queue(), Queue()
        self.sampler = Sampler(watched, **names, clock=self.time.clock_ns, wait=self._wait)

    def _wait(self, done, seconds):
        self._asked.put(seconds)
        return self._answers.get()

    def start(self):
        self.sampler.start(self.time.ns)
        self.waits.append(self._asked.get(timeout=60))

    def spend(self, seconds):
        """Wake it after so many seconds, and wait until it has taken its sample."""
        a_tick_later()
        self.time.spend(seconds)
        self._answers.put(False)
        self.waits.append(self._asked.get(timeout=60))

    def stop(self):
        self._answers.put(True)
        return self.sampler.stop()


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


def test_processor_time_is_that_which_was_used(sampled):
    samples, burnt = sampled
    assert burnt > 0.2
    assert sum(values(samples, "client_cpu")) == pytest.approx(burnt)
    assert values(samples, "store_cpu") == values(samples, "client_cpu")
    assert min(values(samples, "client_rss")) > 1 << 20
    kinds = ("cpu_user", "cpu_system", "cpu_iowait", "cpu_idle", "cpu_steal")
    for second in range(3):
        found = [s.value for s in samples if s.metric in kinds and s.second == second]
        assert sum(found) == pytest.approx(100)


def test_store_and_rates(sampled):
    samples, _ = sampled
    assert values(samples, "store_bytes")[-1] == pytest.approx(3 << 20, rel=0.01)
    rates = ("disk_read", "disk_write", "network_received", "network_sent", "loopback")
    for metric in (*rates, "swap_in", "swap_out"):
        assert min(values(samples, metric)) >= 0
    assert all(0 <= busy <= 100 for busy in values(samples, "disk_busy"))
    own = {s.metric for s in samples if s.worker == 3}
    assert own == {"client_cpu", "client_rss", "store_cpu", "store_rss", "store_bytes"}


def test_a_host_that_sleeps_over_boundaries_takes_one_sample_for_all():
    step = Seconds(Watched({}), phase="read", worker=0, step=0)
    step.start()
    step.spend(3.25)
    step.spend(0.75)
    samples = step.stop()
    assert step.waits == [1.0, 0.75, 1.0], "up to its own boundary again"
    lengths = [(s.second, s.value) for s in samples if s.metric == "sample_length"]
    assert lengths == [(0, 3.25), (3, 0.75)], "a step that ends on a boundary has no last one"


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
        group = ProcessGroup([parent.pid], descend=True)
        assert parent.stdout.readline() == b"burnt\n"
        assert group.sample()[0] >= 0.25
        parent.communicate(b"\n\n")
    assert group.sample() == (0.0, 0)


def test_one_of_a_host_is_elected(tmp_path):
    assert elect(tmp_path, "canary")
    assert not elect(tmp_path, "canary")
    assert elect(tmp_path, "sampler-read")


def test_canary(tmp_path):
    """Each digest, and each block that is written or read, takes the ms of a look at the clock."""
    time = FakeTime(tick=1_000_000)
    samples = run_canary(tmp_path, seconds=0.3, phase="write", clock=time.clock)
    found = {s.metric: s.value for s in samples}
    assert set(found) == {"canary_cpu", "canary_disk_write", "canary_disk_read"}
    # The loop ends with a look that finds the time over.
    assert found["canary_cpu"] == pytest.approx(99 / 0.1)
    # So does that of writing, and one more follows the fsync.
    assert found["canary_disk_write"] == pytest.approx((49 << 20) / 0.051)
    assert found["canary_disk_read"] == pytest.approx((49 << 20) / 0.050)
    assert all(METRICS[s.metric] == s.unit for s in samples)
    assert list(tmp_path.iterdir()) == []


def test_canary_where_nothing_can_be_written(tmp_path):
    with pytest.raises(StorewiseError, match="cannot be used for a store"):
        run_canary(tmp_path / "none", seconds=0.01)


def test_file_systems():
    assert host.file_system(host.Path("/proc")) == "proc"
    assert host.is_network("nfs4")
    assert host.is_network("fuse.sshfs")
    assert host.is_network("lustre")
    assert not host.is_network("ext4")
    assert not host.is_network("fuse.snapfuse")


def test_the_later_of_two_mounts_at_a_point_counts(monkeypatch):
    def mount(point, fstype):
        return type(psutil.disk_partitions(all=True)[0])(point, point, fstype, "")

    mounts = [mount("/", "ext4"), mount("/data", "ext4"), mount("/data", "nfs4")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    assert host.file_system(host.Path("/data/x")) == "nfs4"
    assert host.file_system(host.Path("/database")) == "ext4"


def test_sizes_are_allocated_bytes(tmp_path):
    (tmp_path / "sub").mkdir()
    with (tmp_path / "sub" / "sparse").open("wb") as file:
        file.truncate(100 << 20)
    (tmp_path / "full").write_bytes(os.urandom(1 << 20))
    assert host.tree_bytes((tmp_path, tmp_path / "none")) < 2 << 20
    assert host.tree_bytes((tmp_path,)) >= 1 << 20


def test_facts_can_be_kept_as_json():
    found = json.loads(json.dumps(host.facts()))
    assert found["cpus"] >= 1
    assert found["memory_bytes"] > 0
