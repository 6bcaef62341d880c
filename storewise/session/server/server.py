"""One server's life on this host: directory, first steps, guard, first answer, end."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import disk_usage
from typing import IO

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import (
    ClusterContext,
    Credentials,
    Launch,
    Node,
    ServerEngine,
)
from storewise.errors import ConfigError, EngineError, translate_errors
from storewise.metrics.host import host_name
from storewise.metrics.memory_kills import MemoryKills
from storewise.processes import clean_environment, dies_with_parent, undisturbed
from storewise.session.coordination.ending import disk_full_line, how_it_ended, log_tail
from storewise.session.coordination.liveness import remove_tree
from storewise.session.coordination.private import make_owned, owner_of
from storewise.session.server.address import free_port
from storewise.session.server.guard import POLL, Guarded, Order, clean
from storewise.waiting import wait_for

#: How servers say that somebody else has their port.
_PORT_TAKEN = (
    "address in use",
    "errno: 98",
    "already in use",
    "at requested port",
    "in use by another process",
)
_PORT_TRIES = 3
#: A disk with fewer bytes free is full.
_FULL = 16 << 20
#: A uid with an entry in every passwd file, for servers that refuse to run as root.
_NOBODY = 65534


def disk_is_full(directory: Path) -> bool:
    """Whether the disk of a directory has under 16 MiB free; False if the directory was removed."""
    try:
        return disk_usage(directory).free < _FULL
    except OSError:
        return False


def as_nobody(command: Sequence[str], launch: Launch) -> tuple[str, ...]:
    """The command, for a server that refuses root in a user namespace without root.

    In a user namespace where root's id is shown as nobody's (user_namespaces(7)) the server's
    files still belong to root outside, so directories that only root can enter do not matter.
    """
    if not launch.refuses_root or os.geteuid() != 0:
        return tuple(command)
    return ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}", "--", *command)


def _endpoint(node: Node) -> Endpoint:
    spec = node.spec
    return Endpoint(spec.role, spec.index, host_name(), node.address, node.port, node.ports)


def _end_program(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask a program to end (a killed initdb leaves shared memory); then kill the rest of its
    group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Server:
    """A server and its guard process.

    `start` makes the node's directory, runs the first steps and starts the server; `wait_ready`
    returns when it answers; `failure` says how it ended by itself; `stop` ends it in order.
    """

    def __init__(
        self,
        engine: ServerEngine,
        node: Node,
        log: Path,
        *,
        live: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.engine = engine
        self.node = node
        self.log = log
        self.title = engine.title_of(node.installation.version)
        self.launch = launch = engine.launch(node)
        loaded = {**os.environ, **node.installation.environment}
        self._environment = {**clean_environment(loaded), **launch.environment}
        self._process = Guarded(
            Order(
                as_nobody(launch.command, launch),
                str(node.directory),
                self._environment,
                str(log.absolute()),
                int(launch.stop_signal),
                str(live.absolute()) if live is not None else "",
                node.spec.name,
                launch.cleanup,
            )
        )
        self._before = MemoryKills.now()
        self._seen = 0

    @property
    def pid(self) -> int:
        """Process id of the server's first process; 0 before it was started."""
        return self._process.pid

    @property
    def started_at(self) -> float:
        """Unix time of the last start."""
        return self._process.started_at

    @property
    def endpoint(self) -> Endpoint:
        return _endpoint(self.node)

    def start(self, check: Callable[[], None]) -> None:
        """Raises EngineError with the end of the server's log where a first step fails."""
        self._prepare()
        for step in self.launch.steps:
            self._step(step, check)
        self.restart()

    def restart(self) -> None:
        """Start the server on a directory that is prepared already."""
        self._before = MemoryKills.now()
        self._process.start()

    def again(self, check: Callable[[], None]) -> None:
        """Start the server on the data that it had when it was stopped or killed, at the same
        ports, and wait until it serves; EngineError as `wait_ready`."""
        self.restart()
        self._await(check, self.engine.not_ready_reason)
        self.engine.wait_recovered(self.node, partial(self._watch, check))

    def kill(self) -> None:
        """SIGKILL to all processes of the server at once; returns when none is left."""
        self._process.stop(signal.SIGKILL, 0.0)

    def _prepare(self) -> None:
        directory, launch = self.node.directory, self.launch
        place = f"{self.node.spec.name}: {directory} on host {host_name()}"
        with translate_errors(place, EngineError):
            parents = [(directory / name).parent for name in launch.files]
            for path in (directory, *(directory / name for name in launch.directories), *parents):
                path.mkdir(parents=True, mode=0o700, exist_ok=True)
            directory.chmod(0o700)
            for name, text in launch.files.items():
                path = directory / name
                path.touch(mode=0o600)
                path.chmod(0o600)
                path.write_text(text, encoding="utf-8")

    def _run(
        self,
        command: Sequence[str],
        output: IO[bytes],
        check: Callable[[], None],
        *,
        seconds: float = math.inf,
        stop_seconds: float = 0.0,
    ) -> int | None:
        """Run a program of the engine beside the server; its exit status, None where it took
        longer than `seconds`. One that is not wanted any more has `stop_seconds` to end."""
        process = subprocess.Popen(
            as_nobody(command, self.launch),
            cwd=self.node.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
        )
        until = time.monotonic() + seconds
        try:
            while process.poll() is None and time.monotonic() < until:
                check()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL)
            return process.poll()
        finally:
            if process.poll() is None:
                with undisturbed():
                    _end_program(process, stop_seconds)

    def _step(self, command: tuple[str, ...], check: Callable[[], None]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            status = self._run(command, log, check, stop_seconds=self.launch.stop_seconds)
        if status != 0:
            # A script has its own name as its $0.
            name = command[3] if command[:2] == ("sh", "-c") else Path(command[0]).name
            how = f"ended with status {status}"
            raise EngineError(self._explained(f"{name} {how} on host {host_name()}"))

    def _watch(self, check: Callable[[], None]) -> None:
        check()
        self.raise_if_ended()

    def join(
        self, endpoints: Callable[[str], tuple[Endpoint, ...]], check: Callable[[], None]
    ) -> None:
        """Call `ServerEngine.join`; EngineError if the server ends meanwhile."""
        node, watch = self.node, partial(self._watch, check)

        def run(command: Sequence[str], seconds: float) -> str:
            with tempfile.TemporaryFile() as output:
                status = self._run(command, output, watch, seconds=seconds)
                output.seek(0)
                text = output.read().decode(errors="replace").strip()
            if status == 0:
                return text
            how = f"took over {seconds:g} s" if status is None else f"ended with status {status}"
            raise EngineError(
                f"{node.spec.name}: {shlex.join(command)} {how} on host {host_name()}; it "
                f"says:\n{text or 'nothing'}"
            )

        shared = (node.topology, node.settings, node.consistency, node.credentials)
        self.engine.join(node, ClusterContext(*shared, endpoints, watch), run)

    def failure(self, wait: float = 0.0) -> str | None:
        """How the server has ended by itself, with the end of its log, or that its disk is full;
        None while it runs, after `wait` seconds."""
        self._process.hear(wait)
        server = f"the server of {self.title} on host {host_name()}"
        status = self._process.status
        if status is not None:
            how = how_it_ended(status, self._before, self._process.pid)
            return self._explained(f"{server} {how}")
        # Some servers wait for space without end, and their clients with them.
        size = self.log.stat().st_size if self.log.exists() else 0
        if size != self._seen:
            self._seen = size
            if disk_full_line(self.log):
                return self._explained(f"{server} cannot go on")
        return None

    def raise_if_ended(self, wait: float = 0.0) -> None:
        """EngineError with `failure` where there is one, after `wait` seconds."""
        if (text := self.failure(wait)) is not None:
            raise EngineError(text)

    def _explained(self, what: str) -> str:
        """An event of a program of this node, with the reason from its log."""
        node = self.node
        line = disk_full_line(self.log)
        # A server that maps its files into memory crashes there, and its log does not say why.
        if line or disk_is_full(node.directory):
            return (
                f"{node.spec.name}: no space left on device for {node.directory}: free space "
                "there, or name a larger directory (`scratch` of rule `node` in the profile); "
                f"{what}{f', its log says: {line}' if line else ''}"
            )
        return f"{node.spec.name}: {what}; the end of its log:\n{log_tail(self.log)}"

    def wait_ready(self, check: Callable[[], None]) -> None:
        """Return when the server answers; EngineError when it ends or the engine's time is over."""
        self._await(check, self.engine.not_started_reason)
        for name in self.launch.remove_when_ready:
            (self.node.directory / name).unlink(missing_ok=True)

    def _await(
        self,
        check: Callable[[], None],
        pending_reason: Callable[[Endpoint, Credentials], str | None],
    ) -> None:
        node, seconds = self.node, self.engine.ready_seconds
        reason: str | None = None

        def ready() -> bool:
            nonlocal reason
            reason = pending_reason(self.endpoint, node.credentials)
            return reason is None

        def watch() -> None:
            check()
            self.raise_if_ended(POLL)

        if not wait_for(ready, seconds, watch, poll=0.0, clock=self._clock):
            raise EngineError(
                f"{node.spec.name}: the {self.title} server on host {host_name()} was not ready at "
                f"{node.address}:{node.port} within {seconds:.0f} s: {reason}; the end of its "
                f"log:\n{log_tail(self.log)}"
            )

    def stop(self) -> None:
        """End the server in order, by force after its time; a second call does nothing."""
        self._process.stop(self.launch.stop_signal, self.launch.stop_seconds)

    def end(self) -> str:
        """`stop` and `remove`, whatever signals come meanwhile."""
        with undisturbed():
            self.stop()
            return self.remove()

    def remove(self) -> str:
        """Remove the node's directory and what it keeps elsewhere, after `stop`; returns error
        messages, or nothing."""
        left = clean(self._process.order) if self.node.directory.is_dir() else ""
        remove_tree(self.node.directory)
        return left


def start_server(
    engine: ServerEngine,
    node: Node,
    log: Path,
    check: Callable[[], None],
    *,
    ports: str = "",
    live: Path | None = None,
    meet: Callable[[Endpoint], tuple[Endpoint, ...]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Server:
    """Start a node's server and wait until it answers; its ports are chosen here.

    `live` is the live directory of the trial that ends if this process is killed. `meet` gets
    where the server will listen before it starts, and gives the nodes that it meets. `clock` (s) is
    what the engine's time to answer goes by.

    Another process may take a port between our look and the server's start: then others are
    tried, with a new directory, unless other nodes have been told of them. Raises EngineError,
    with no server left.
    """
    tried: set[int] = set()
    run = owner_of(node.directory)
    attempt = 0
    while True:
        attempt += 1
        chosen = _with_ports(node, ports, tried)
        if meet is not None:
            chosen = replace(chosen, peers=(*node.peers, *meet(_endpoint(chosen))))
        server = Server(engine, chosen, log, live=live, clock=clock)
        if os.geteuid() == 0 and server.launch.refuses_root and not _namespaces():
            raise ConfigError(
                f"{server.title} refuses to run as root, and this host does not allow user "
                "namespaces; run Storewise as an ordinary user"
            )
        try:
            server.start(check)
            server.wait_ready(check)
            return server
        except BaseException as error:
            server.end()
            words = log_tail(log).lower()
            taken = isinstance(error, EngineError) and any(text in words for text in _PORT_TAKEN)
            if not taken or meet is not None or attempt == _PORT_TRIES:
                raise
            if run:
                make_owned(node.directory, run)


def _with_ports(node: Node, ports: str, tried: set[int]) -> Node:
    """The node with free ports; they are added to those that were tried."""
    numbers = []
    for _ in range(1 + len(node.spec.ports)):
        numbers.append(free_port(node.address, ports, frozenset(tried)))
        tried.add(numbers[-1])
    return replace(
        node, port=numbers[0], ports=dict(zip(node.spec.ports, numbers[1:], strict=True))
    )


def _namespaces() -> bool:
    try:
        done = subprocess.run(
            ["unshare", "--user", f"--map-user={_NOBODY}", "true"], capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0
