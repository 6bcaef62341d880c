"""A process under a guard of its own (`guard`), as the node's job sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from storewise.processes import library_environment
from storewise.session.server.guard import Order

POLL = 0.1


class Guarded:
    """A process and all that it starts; ended by its guard when this process ends in any way."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.pid = 0
        self.status: int | None = None
        """How the process ended: its exit status, or minus the signal; None while it runs."""
        self.started_at = 0.0
        self._guard: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def start(self) -> None:
        """Start it; returns when its process id is known or it has ended already."""
        self.status, self.pid, self._buffer = None, 0, b""
        Path(self.order.log).parent.mkdir(parents=True, exist_ok=True)
        with Path(self.order.log).open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "storewise.session.server.guard"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
                env=library_environment(),
            )
        assert self._guard.stdin is not None
        self._guard.stdin.write(json.dumps(asdict(self.order)).encode() + b"\n")
        self._guard.stdin.flush()
        self.started_at = time.time()
        while not self.pid and self.status is None:
            self.hear(POLL)

    def hear(self, seconds: float) -> None:
        """Take what the guard says within some seconds."""
        guard = self._guard
        if guard is None or self.status is not None:
            return
        assert guard.stdout is not None
        if not select.select([guard.stdout], [], [], seconds)[0]:
            return
        data = os.read(guard.stdout.fileno(), 4096)
        if not data:
            self.status = guard.wait() or -signal.SIGKILL
            self._kill_root()
            return
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.pid = message.get("pid", self.pid)
            self.status = message.get("status", self.status)

    def _kill_root(self) -> None:
        """The guard itself was killed, so nobody else ends what it has started.

        The process had asked the kernel to die with it; its own children see that it has gone.
        """
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def stop(self, number: signal.Signals, seconds: float) -> None:
        """End it by a signal, and by force after some seconds; a second call does nothing."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None and guard.stdout is not None
        try:
            guard.stdin.write(f"stop {int(number)} {seconds}\n".encode())
            guard.stdin.flush()
        except OSError:
            self._kill_root()  # the guard has gone
        try:
            guard.wait(seconds + 10)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
            self._kill_root()
        guard.stdin.close()
        guard.stdout.close()
