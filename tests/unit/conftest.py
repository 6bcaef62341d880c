"""What makes a test a unit test: it starts no process, opens no socket and does not sleep."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import Any

import pytest

OUTSIDE = {
    "subprocess.Popen": "starts a process",
    "os.fork": "starts a process",
    "os.posix_spawn": "starts a process",
    "socket.bind": "opens a socket",
    "socket.connect": "opens a socket",
    "time.sleep": "sleeps",
}
_seen: set[str] = set()
_watching = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in OUTSIDE:
        _seen.add(f"{OUTSIDE[event]}: {arguments[:1]}")


# Python's platform module runs uname once, whoever asks it first.
platform.processor()
sys.addaudithook(_hear)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Watches from before the first fixture, whatever its scope."""
    global _watching
    _seen.clear()
    _watching = True
    result = yield
    _watching = False
    return result


@pytest.fixture(autouse=True)
def nothing_outside() -> Iterator[None]:
    """Fails a test that belongs to another tier."""
    yield
    assert not _seen, f"no unit test ({'; '.join(sorted(_seen))}): it belongs to another folder"
