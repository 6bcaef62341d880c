"""Servers beside another user of the host, who tries every door from their first moment on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.needs import unavailable

from storewise.session.server import server as session_server

NOBODY = 65534


def need_another_user() -> None:
    if os.geteuid() != 0:
        unavailable("only root can act as a second user of the host")


@dataclass
class Attempts:
    """What the intruder did, after the block."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""

    log: Path = Path()

    def went_round(self, places: set[str]) -> bool:
        """Whether he has come to each of these places again, so has tried all that he knows."""
        *lines, _ = self.log.read_text().split("\n")
        came = Counter(e["place"] for e in map(json.loads, lines) if e["tried"] == "connect")
        return all(came[place] > 1 for place in places)

    def inside(self) -> list[str]:
        """What got him in, each once."""
        result = (f"{e['tried']}: {e['answer']}" for e in self.entries if e["in"])
        return sorted(set(result))

    def reached(self) -> set[str]:
        """Addresses and ports where a server took his connection."""
        return {e["place"] for e in self.entries if e["tried"] == "connect" and not e["in"]}

    def tried(self, words: str) -> list[str]:
        return [e["answer"] for e in self.entries if words in e["tried"]]


@contextmanager
def beside_an_intruder(kind: str, log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempts]:
    """Another user tries the servers that this process starts while the block runs.

    He is told each port when it is chosen, so before anybody listens there, and every socket that
    our processes listen on as soon as it is seen.
    """
    need_another_user()
    program = Path(__file__).with_name("intruder.py")
    intruder = subprocess.Popen(
        [sys.executable, str(program), kind, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert intruder.stdin is not None and intruder.stdout is not None
    result = Attempts(log=log)
    ended = threading.Event()
    lock = threading.Lock()

    def tell(place: str) -> None:
        assert intruder.stdin is not None
        with lock:
            intruder.stdin.write(place + "\n")
            intruder.stdin.flush()

    choose = session_server.free_port

    def chosen(address: str, *rest: Any) -> int:
        port = choose(address, *rest)
        tell(f"tcp {address} {port}")
        return port

    def look() -> None:
        message: set[str] = set()
        while not ended.wait(0.05):
            for place in sorted(_places(intruder.pid) - message):
                message.add(place)
                tell(place)

    assert intruder.stdout.readline() == "ready\n"
    monkeypatch.setattr(session_server, "free_port", chosen)
    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield result
    finally:
        ended.set()
        looking.join()
        monkeypatch.setattr(session_server, "free_port", choose)
        intruder.stdin.close()
        intruder.wait(300)
        result.text = log.read_text()
        result.entries = [json.loads(line) for line in result.text.splitlines()]


def _places(intruder: int) -> set[str]:
    """Where our processes can be reached: sockets that they listen on, and themselves."""
    result = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if process.pid == intruder:
                continue
            result.add(f"process {process.pid}")
            for connection in process.net_connections("all"):
                if connection.status == psutil.CONN_LISTEN:
                    address = connection.laddr.ip
                    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
                    result.add(f"tcp {address} {connection.laddr.port}")
                elif connection.family == socket.AF_UNIX and connection.laddr:
                    result.add(f"unix {connection.laddr}")
        except psutil.Error:
            continue
    return result
