"""Slowing a node from its own job: start a process that slows it, await its effect, end it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from storewise.atomic import read_as
from storewise.engines.contract.server import Node
from storewise.errors import EngineError
from storewise.metrics.host import host_name
from storewise.processes import library_environment
from storewise.session.coordination.ending import log_tail
from storewise.session.coordination.liveness import remove_tree
from storewise.session.faults.background_load import STATE
from storewise.session.server.guard import POLL, Guarded, Order, clean
from storewise.waiting import wait_for
from storewise.workloads.faults import Slow

#: Until a slower is seen to slow, s; a slow disk must have synced once.
_START_SECONDS = 120.0
_STOP_SECONDS = 5.0


class Slowing:
    """One slowing of one node: a process with its own guard."""

    def __init__(self, node: Node, slow: Slow, log: Path) -> None:
        self.slow = slow
        self._name = node.spec.name
        self._data = node.directory
        # Beside the data, on their disk, so that it does not count as the server's.
        self._directory = node.directory.with_name(f"{node.directory.name}.slow")
        self._log = log.with_name(f"{self._name}.slow.log").absolute()
        self._process: Guarded | None = None
        self._started = 0.0

    def start(self, check: Callable[[], None]) -> None:
        """Returns when the node is seen to be slowed; EngineError where it cannot be, with
        nothing left."""
        self._log.unlink(missing_ok=True)
        try:
            self._directory.mkdir(parents=True, mode=0o700)
        except FileExistsError as error:
            raise EngineError(f"{self._name}: {self._directory} exists already") from error
        try:
            if self.slow.how == "disk":
                self._check_same_disk()
            plan = self._directory / "plan.json"
            plan.write_text(self.slow.model_dump_json(exclude_unset=True), encoding="utf-8")
            self._process = process = Guarded(self._order(plan))
            process.start()

            def watch() -> None:
                check()
                process.hear(POLL)
                self.raise_if_ended()

            if not wait_for(self._figures, _START_SECONDS, watch, poll=0.0):
                raise EngineError(
                    f"{self._name}: slowing ({self.slow.words()}) has had no effect for "
                    f"{_START_SECONDS:.0f} s on host {host_name()}:\n{log_tail(self._log)}"
                )
        except BaseException:
            self.end()
            raise
        self._started = time.monotonic()

    def _check_same_disk(self) -> None:
        if self._data.stat().st_dev != self._directory.stat().st_dev:
            raise EngineError(
                f"{self._name}: {self._data} is a file system of its own, so that a file beside it "
                "would not slow its disk; give a directory below it as `scratch`"
            )

    def _order(self, plan: Path) -> Order:
        program = (sys.executable, "-m", "storewise.session.faults.background_load", str(plan))
        return Order(
            program,
            str(self._directory),
            library_environment(),
            str(self._log),
            int(signal.SIGTERM),
            live="",  # the server's own guard tells the trial when the node's job was killed
            node=self._name,
        )

    def _figures(self) -> dict[str, float]:
        try:
            return read_as(dict[str, float], self._directory / STATE)
        except FileNotFoundError:
            return {}

    def raise_if_ended(self) -> None:
        """EngineError where the slower has ended by itself: the figures would not be of a slowed
        node."""
        if self._process is None:
            return
        self._process.hear(0.0)
        status = self._process.status
        if status is not None:
            how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            raise EngineError(
                f"{self._name}: slowing ({self.slow.words()}) ended early on host {host_name()}, "
                f"{how}: {log_tail(self._log) or 'its log is empty'}"
            )

    def stop(self) -> dict[str, float]:
        """End it and remove all of it; returns what it has done (metrics ``slow_*``)."""
        try:
            self.raise_if_ended()
            figures = {**self._figures(), "slow_time": time.monotonic() - self._started}
        finally:
            left = self.end()
        if left:
            raise EngineError(f"{self._name}: slowing could not be undone: {left}")
        return figures

    def end(self) -> str:
        """End it in any case; returns error messages of what could not be removed, or nothing."""
        process, self._process = self._process, None
        left = ""
        if process is not None:
            process.stop(signal.SIGTERM, _STOP_SECONDS)
            if self._directory.is_dir():
                left = clean(process.order)
        remove_tree(self._directory)
        return left
