"""Who samples a host; the canary in a time that is handed in; facts of a host."""

import json
import os

import pytest
from support.fake_time import FakeTime

from storewise.errors import StorewiseError
from storewise.metrics import host
from storewise.metrics.canary import run_canary
from storewise.metrics.sampler import ELECTED, elect
from storewise.metrics.schema import METRICS


def test_one_of_a_host_is_elected(tmp_path):
    assert elect(tmp_path, "canary")
    assert not elect(tmp_path, "canary")
    assert elect(tmp_path, "sampler-read")
    # Every job lists the live directory twice a second: it does not grow with the hosts.
    assert [path.name for path in tmp_path.iterdir()] == [ELECTED]


def test_canary(tmp_path):
    """Each digest, and each block that is written or read, takes the ms of a look at the clock."""
    time = FakeTime(tick=1_000_000)
    samples = run_canary(tmp_path, seconds=0.3, phase="write", clock=time.clock)
    result = {s.metric: s.value for s in samples}
    assert set(result) == {"canary_cpu", "canary_disk_write", "canary_disk_read"}
    # The loop ends with a look that finds the time over.
    assert result["canary_cpu"] == pytest.approx(99 / 0.1)
    # So does that of writing, and one more follows the fsync.
    assert result["canary_disk_write"] == pytest.approx((49 << 20) / 0.051)
    assert result["canary_disk_read"] == pytest.approx((49 << 20) / 0.050)
    assert all(METRICS[s.metric] == s.unit for s in samples)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorewiseError, match="cannot be used for a store"):
        run_canary(tmp_path / "none", seconds=0.01)


def test_file_systems():
    assert host.file_system(host.Path("/proc")) == "proc"
    assert all(map(host.is_network, ("nfs4", "fuse.sshfs", "lustre")))
    assert not any(map(host.is_network, ("ext4", "fuse.snapfuse")))
    # Facts of a host can be kept.
    result = json.loads(json.dumps(host.facts()))
    assert result["cpus"] >= 1 and result["memory_bytes"] > 0


def test_sizes_are_allocated_bytes(tmp_path):
    (tmp_path / "sub").mkdir()
    with (tmp_path / "sub" / "sparse").open("wb") as file:
        file.write(b"x")
        file.truncate(100 << 20)
    (tmp_path / "full").write_bytes(os.urandom(1 << 20))
    assert host.tree_bytes((tmp_path, tmp_path / "none")) < 2 << 20
    assert host.tree_bytes((tmp_path,)) >= 1 << 20
