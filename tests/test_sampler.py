"""The host sampler and the canary against work whose size is known."""

import json
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from storewise.errors import StorewiseError
from storewise.metrics import host
from storewise.metrics.canary import run_canary
from storewise.metrics.sampler import ProcessGroup, Sampler, Watched, elect
from storewise.metrics.schema import METRICS

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


def values(samples, metric):
    return [s.value for s in samples if s.metric == metric]


@pytest.fixture
def sampled(tmp_path):
    """A step of about 2.5 s in which a process burns 1 s of CPU and a store gets 3 MiB."""
    store = tmp_path / "store"
    store.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()\n" + BURN.format(1.0) + "input()"], stdin=subprocess.PIPE
    )
    sampler = Sampler(
        Watched({0: child.pid}, embedded=True, store=(store,), disk_path=store),
        phase="write",
        worker=3,
        step=1,
    )
    zero = time.perf_counter_ns()
    sampler.start(zero)
    child.stdin.write(b"\n")
    child.stdin.flush()
    with (store / "data").open("wb") as file:
        file.write(os.urandom(3 << 20))
        os.fsync(file.fileno())
    time.sleep(2.5 - (time.perf_counter_ns() - zero) / 1e9)
    samples = sampler.stop()
    child.communicate(b"\n")
    return samples


def test_a_step_is_sampled_on_whole_seconds(sampled):
    for metric in ("cpu_user", "memory_used", "client_cpu", "store_bytes", "sample_length"):
        assert [s.second for s in sampled if s.metric == metric] == [0, 1, 2], metric
    lengths = values(sampled, "sample_length")
    assert lengths[:2] == pytest.approx([1, 1], abs=0.15)
    assert 0.3 < lengths[2] < 0.75  # the partial one says so
    assert all(s.step == 1 and s.phase == "write" for s in sampled)
    assert all(METRICS[s.metric] == s.unit for s in sampled)


def test_processor_time_is_that_which_was_used(sampled):
    assert sum(values(sampled, "client_cpu")) == pytest.approx(1.0, abs=0.25)
    assert values(sampled, "store_cpu") == values(sampled, "client_cpu")
    assert min(values(sampled, "client_rss")) > 1 << 20
    kinds = ("cpu_user", "cpu_system", "cpu_iowait", "cpu_idle", "cpu_steal")
    for second in range(3):
        found = [s.value for s in sampled if s.metric in kinds and s.second == second]
        assert sum(found) == pytest.approx(100)


def test_store_and_rates(sampled):
    assert values(sampled, "store_bytes")[-1] == pytest.approx(3 << 20, rel=0.01)
    rates = ("disk_read", "disk_write", "network_received", "network_sent", "loopback")
    for metric in (*rates, "swap_in", "swap_out"):
        assert min(values(sampled, metric)) >= 0
    assert all(0 <= busy <= 100 for busy in values(sampled, "disk_busy"))
    own = {s.metric for s in sampled if s.worker == 3}
    assert own == {"client_cpu", "client_rss", "store_cpu", "store_rss", "store_bytes"}


def test_loopback_is_kept_apart():
    sampler = Sampler(Watched({}), phase="read", worker=0, step=0)
    zero = time.perf_counter_ns()
    sampler.start(zero)
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
        # A sample of less than a millisecond says nothing and is not taken.
        while time.perf_counter_ns() - zero < 10_000_000:
            pass
    samples = sampler.stop()
    moved = sum(
        rate * length
        for rate, length in zip(
            values(samples, "loopback"), values(samples, "sample_length"), strict=True
        )
    )
    assert moved >= 100_000


def test_a_tree_counts_children_that_come_later():
    burn = BURN.format(0.5)
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        group = ProcessGroup([parent.pid], descend=True)
        used = 0.0
        until = time.monotonic() + 20
        while used < 0.3 and time.monotonic() < until:
            time.sleep(0.05)
            used += group.sample()[0]
        parent.communicate(b"\n")
    assert used >= 0.3
    assert group.sample() == (0.0, 0)


def test_one_of_a_host_is_elected(tmp_path):
    assert elect(tmp_path, "canary")
    assert not elect(tmp_path, "canary")
    assert elect(tmp_path, "sampler-read")


def test_canary(tmp_path):
    samples = run_canary(tmp_path, seconds=0.15, phase="write")
    assert {s.metric for s in samples} == {"canary_cpu", "canary_disk_write", "canary_disk_read"}
    assert all(s.value > 0 and METRICS[s.metric] == s.unit for s in samples)
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
