"""The guard of one server: a small process between a node job and its server.

`Guarded` is the job's side of it, `main` the guard's. The guard has a process session of its own,
starts the server, and ends the server's whole tree as soon as its standard input closes, which the
kernel does when the node job ends in whatever way. Being the subreaper of its descendants
(prctl(2)), it sees those too that a server detaches.

Standard input: one line of JSON (`Order`), then ``stop SIGNAL SECONDS`` at most once.
Standard output: lines of JSON, ``{"pid": n}`` and at the end ``{"status": n}``.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from storewise.processes import ENDING, dies_with_parent, library_environment
from storewise.session.coordination.liveness import Abort, abort, await_reason

POLL = 0.1
#: From Linux's ``sys/prctl.h``.
_PR_SET_CHILD_SUBREAPER = 36
#: Time for an orderly end once nobody is left who could wait for it.
ORPHANED_SECONDS = 5.0
#: For the job's Snakemake to say how it was killed; the server goes on meanwhile.
SIGNAL_REPORT_SECONDS = 2.0
#: For each command that removes what a server keeps elsewhere.
CLEANUP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """The command that the guard runs, and what it cleans up."""

    command: tuple[str, ...]
    directory: str
    """Directory of the node; the guard removes it if the node's job has ended without doing so."""
    environment: Mapping[str, str]
    log: str
    stop_signal: int
    live: str
    """The trial's live directory: the trial is aborted when the job has gone. Empty: none."""
    node: str
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Commands that remove what the server keeps elsewhere; run where its job has gone."""


def clean(order: Order) -> str:
    """Run a node's cleanup, its output to the server's log; returns error messages, or nothing.

    It must be done before the directory goes, which may hold the commands' configuration.
    """
    failures = []
    for command in order.cleanup:
        try:
            with Path(order.log).open("ab") as output:
                subprocess.run(
                    command,
                    cwd=order.directory,
                    env=dict(order.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=CLEANUP_SECONDS,
                    check=True,
                )
        except subprocess.CalledProcessError as error:
            failures.append(f"{shlex.join(command)}: ended with status {error.returncode}")
        except (OSError, subprocess.TimeoutExpired) as error:
            failures.append(f"{shlex.join(command)}: {error}")
    return "; ".join(failures)


def _reap(server: int) -> int | None:
    """Reap all ended child processes; the server's exit status if it is one of them."""
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == server:
                status = os.waitstatus_to_exitcode(ended[1])
    return status


def _end_tree(server: int) -> int | None:
    """Kill all descendants of this process until none is left; the server's exit status if it is
    one of them."""
    status = None
    while left := psutil.Process().children(recursive=True):
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        ended = _reap(server)
        status = status if ended is None else ended
        time.sleep(0.02)
    return status


def _say(**message: int) -> None:
    with suppress(OSError):  # the node job has gone; our input says so too
        os.write(1, (json.dumps(message) + "\n").encode())


def _abort(order: Order) -> None:
    """Abort the trial of a job that was killed: its clients would only see a lost connection.

    Its Snakemake knows by which signal, unless that was killed too.
    """
    if order.live:
        await_reason(Path(order.live), SIGNAL_REPORT_SECONDS)
        host = socket.gethostname()
        reason = f"{order.node}: its job on host {host} has ended without ending its server"
        why = Abort(f"{reason}: was it killed?", failure=True, log=order.log, killed=order.node)
        abort(Path(order.live), why)


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
        """Wait up to `seconds` for a message from the guard process, and record it."""
        guard = self._guard
        if guard is None or self.status is not None:
            return
        assert guard.stdout is not None
        poll = select.poll()  # select() refuses descriptors above 1,023
        poll.register(guard.stdout, select.POLLIN)
        if not poll.poll(1000 * seconds):
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
        """End the processes of a guard that was killed itself.

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
        except OSError:  # the guard has gone
            if self.status is None:
                self._kill_root()
        try:
            guard.wait(seconds + 10)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
            self._kill_root()
        guard.stdin.close()
        guard.stdout.close()


def main() -> None:
    """The guard's own process."""
    for number in ENDING:
        # A scheduler tells all processes of a job; the node job decides what follows.
        signal.signal(number, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Unbuffered: the word to stop may follow at once, and is looked for in the pipe itself.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        line = orders.readline()
    if not line:
        return  # the node job ended before it had said what to run
    order = Order(**json.loads(line))
    child_ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    tie = dies_with_parent()

    def prepare() -> None:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        tie()

    with Path(order.log).open("ab") as log:
        server = subprocess.Popen(
            order.command,
            cwd=order.directory,
            env=dict(order.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=prepare,
        )
    _say(pid=server.pid)
    status: int | None = None
    until, orphaned, inputs = math.inf, False, [0, child_ended]
    while status is None and (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select(inputs, [], [], left if left < math.inf else None)
        if child_ended in ready:
            os.read(child_ended, 4096)
            status = _reap(server.pid)
        if 0 in ready and status is None:
            words = os.read(0, 4096).decode().split()
            if words:
                stop_signal, seconds = int(words[1]), float(words[2])
            else:
                inputs.remove(0)
                orphaned = True
                _abort(order)
                stop_signal, seconds = order.stop_signal, ORPHANED_SECONDS
            os.kill(server.pid, stop_signal)
            until = min(until, time.monotonic() + seconds)
    killed = _end_tree(server.pid)
    if status is None:
        status = killed if killed is not None else -signal.SIGKILL
    if orphaned:
        if failures := clean(order):
            with Path(order.log).open("a") as output:
                output.write(f"not cleaned up: {failures}\n")
        shutil.rmtree(order.directory, ignore_errors=True)
    _say(status=status)


if __name__ == "__main__":
    main()
