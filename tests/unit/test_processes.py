"""Signals that come while a job ends what it has started, and what jobs are given."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from storewise.processes import ENDING, clean_environment, clean_own_environment, undisturbed


class Told(Exception):
    pass


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    def tell(number: int, frame: FrameType | None) -> None:
        raise Told(signal.Signals(number).name)

    before = {number: signal.signal(number, tell) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_wait_for_the_end_and_the_first_counts() -> None:
    done = []
    with pytest.raises(Told, match="SIGTERM"), undisturbed():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            done.append(number)
    assert len(done) == 4
    with pytest.raises(Told, match="SIGHUP"):
        os.kill(os.getpid(), signal.SIGHUP)
        signal.sigtimedwait([], 1)


def test_an_error_within_is_kept_beside_the_signal() -> None:
    with pytest.raises(Told) as message, undisturbed():
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError("the disk is full")
    assert isinstance(message.value.__context__, OSError)


def test_one_within_another() -> None:
    done = []
    with pytest.raises(Told), undisturbed():
        with undisturbed():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_in_another_thread_nothing_is_changed() -> None:
    result = []

    def run() -> None:
        with undisturbed():
            result.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert result == [before]


def test_variables_for_other_servers_reach_nobody_but_those_that_the_study_names() -> None:
    kept = ["HOME", "LC_ALL", "STOREWISE_X", "AWS_PROFILE", "SLURM_JOB_ID", "https_proxy"]
    hostile = ["PGSERVICE", "MYSQL_PWD", "_JAVA_OPTIONS", "SQUEUE_STATES", "OPENSSL_CONF"]
    named = ["SCRATCH_DISK", "MY_DATABASE"]
    before = dict(os.environ)
    try:
        os.environ.update(dict.fromkeys([*kept, *hostile, *named], "x"))
        assert clean_environment().keys() & {*kept, *hostile, *named} == {*kept}
        clean_own_environment({"engine": "sql", "url_env": "MY_DATABASE"}, "$SCRATCH_DISK/here")
        assert os.environ.keys() & {*kept, *hostile, *named} == {*kept, *named}
    finally:
        os.environ.clear()
        os.environ.update(before)
