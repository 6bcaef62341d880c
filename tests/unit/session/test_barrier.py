"""The file barrier, with threads as its parties (a party is a name, whatever stands behind it)."""

import os
import threading

import pytest
from support.fake_time import FakeTime

from storewise.errors import Aborted
from storewise.session.coordination.barrier import Barrier


def test_all_leave_after_the_last_has_come(tmp_path):
    parties = ["0", "1", "2", "3"]
    left = []
    three_wait = threading.Barrier(4)

    def run(me):
        looks = []

        def sleep(seconds):
            looks.append(seconds)
            if len(looks) == 1 and me != "3":
                three_wait.wait(60)
            os.sched_yield()

        Barrier(tmp_path, parties, "write-0", sleep=sleep).wait(me, lambda: None)
        left.append(me)

    threads = [threading.Thread(target=run, args=(me,)) for me in parties[:3]]
    for thread in threads:
        thread.start()
    three_wait.wait(60)
    barrier = Barrier(tmp_path, parties, "write-0")
    assert (barrier.missing(), left) == (["3"], [])
    run("3")
    for thread in threads:
        thread.join(60)
    assert sorted(left) == parties
    # Other names are other barriers; this one stays open.
    assert Barrier(tmp_path, parties, "write-1").missing() == parties
    assert barrier.missing() == []


def test_it_is_looked_at_often_and_not_without_a_pause(tmp_path):
    time = FakeTime()

    def check():
        if time.now >= 1020:
            raise Aborted("the trial ends")

    barrier = Barrier(tmp_path, ["0", "1", "2"], "read-0", sleep=time.sleep)
    with pytest.raises(Aborted):
        barrier.wait("1", check)
    (tmp_path / "barriers" / "read-0" / ".2.host.5").touch()
    assert barrier.missing() == ["0", "2"], "a party that is being written has not come"
    assert time.sleeps[:4] == pytest.approx([0.01, 0.015, 0.0225, 0.03375])
    assert set(time.sleeps[4:]) == {0.05}


def test_it_is_left_at_the_first_look_after_the_last_has_come(tmp_path):
    time = FakeTime()
    barrier = Barrier(tmp_path, ["0", "1"], "read-0", sleep=time.sleep)
    time.after(300, (tmp_path / "barriers" / "read-0" / "1").touch)
    barrier.wait("0", lambda: None)
    assert 1000 + 300 <= time.now < 1000 + 300.05
