"""The file barrier, with threads as its parties (a party is a name, whatever stands behind it)."""

import threading
import time

import pytest

from storewise.driver.barrier import Barrier
from storewise.errors import Aborted, StorewiseError


def nothing():
    """A check that lets the wait go on."""


def test_all_leave_after_the_last_has_come(tmp_path):
    parties = ["0", "1", "2", "3"]
    arrived, left = {}, {}

    def run(me, delay):
        time.sleep(delay)
        arrived[me] = time.monotonic()
        Barrier(tmp_path, parties, "write-0").wait(me, nothing, timeout=20)
        left[me] = time.monotonic()

    threads = [threading.Thread(target=run, args=(me, 0.1 * n)) for n, me in enumerate(parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(left.values()) >= max(arrived.values())
    assert max(left.values()) - max(arrived.values()) < 1
    # Other names are other barriers; this one stays open.
    assert Barrier(tmp_path, parties, "write-1").missing() == parties
    assert Barrier(tmp_path, parties, "write-0").missing() == []


def test_a_timeout_names_the_missing(tmp_path):
    barrier = Barrier(tmp_path, ["0", "1", "2"], "read-0")
    with pytest.raises(StorewiseError, match=r"barrier read-0: .* 2 of 3 .*: 0, 2; their jobs"):
        barrier.wait("1", nothing, timeout=0.05)


def test_a_check_ends_the_wait(tmp_path):
    calls = []

    def check():
        calls.append(1)
        if len(calls) == 3:
            raise Aborted("worker 1 failed")

    with pytest.raises(Aborted, match="worker 1 failed"):
        Barrier(tmp_path, ["0", "1"], "read-0").wait("0", check)


def test_a_party_that_is_being_written_has_not_come(tmp_path):
    barrier = Barrier(tmp_path, ["0", "1"], "read-0")
    (tmp_path / "barriers" / "read-0").mkdir(parents=True)
    (tmp_path / "barriers" / "read-0" / ".1.host.5").touch()
    assert barrier.missing() == ["0", "1"]


def test_names_are_checked(tmp_path):
    with pytest.raises(ValueError, match="file names"):
        Barrier(tmp_path, ["../0"], "read")
    with pytest.raises(ValueError, match="not a party"):
        Barrier(tmp_path, ["0"], "read").wait("1", nothing)
