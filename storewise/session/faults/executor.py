"""A node's job carries out orders of its trial's workers (`storewise.session.faults.orders`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from storewise.engines.contract.server import NodeSpec
from storewise.errors import EngineError, StorewiseError
from storewise.session.faults.orders import (
    Answer,
    NodeOrder,
    answers_to,
    orders_for,
    publish_answer,
)
from storewise.session.faults.slowdown import Slowing
from storewise.session.server.server import Server
from storewise.workloads.faults import Slow

#: How often a node that does an order looks for other nodes and after its server, s.
LOOK_EVERY = 0.2


class FaultExecutor:
    """The faults of one node: its server stopped, killed, started again, slowed."""

    def __init__(
        self,
        server: Server,
        specs: tuple[NodeSpec, ...],
        live: Path,
        *,
        check: Callable[[], None],
        log: logging.Logger,
        offset: float,
        restarted: Callable[[], None],
    ) -> None:
        """`offset`: seconds by which this host's clock is ahead of the session's. `restarted` is
        called after the server was started again, as a new process."""
        self._server, self._specs, self._live = server, specs, live
        self._check, self._log, self._offset = check, log, offset
        self._restarted = restarted
        self._name = server.node.spec.name
        self._seen: set[str] = set()
        self._slowing: Slowing | None = None
        self._down = False

    def do_orders(self) -> None:
        """Carry out the orders since the last call; EngineError if a slowing has ended early or the
        server could not be started again (the worker that gave the order is told, too)."""
        if self._slowing is not None:
            self._slowing.raise_if_ended()
        for order in orders_for(self._live, self._name, self._seen):
            self._do(order)

    def failure(self, wait: float) -> str | None:
        """Like `Server.failure`, but a server that is down by order has not failed."""
        if self._down:
            time.sleep(wait)
            return None
        return self._server.failure(wait)

    def end(self) -> str:
        """End the slowing; returns error messages of what could not be undone, or nothing."""
        slowing, self._slowing = self._slowing, None
        return slowing.end() if slowing is not None else ""

    def _do(self, order: NodeOrder) -> None:
        actions = {
            "restart": self._restart,
            "kill": self._kill,
            "start": lambda order: self._start(time.time()),
            "slow": self._slow,
            "stop_slow": self._stop_slow,
        }
        answer = Answer(order.id, self._name, "begun")
        publish_answer(self._live, answer)
        self._log.info("order %s: %s", order.id, order.what)
        try:
            figures = actions[order.what](order)
        except StorewiseError as error:
            publish_answer(self._live, replace(answer, state="failed", error=str(error)))
            if order.what == "slow" and isinstance(error, EngineError):
                # Who gave the order ends the trial; the server is well.
                self._log.error("%s", error)
                return
            raise
        self._log.info("done: %s", ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
        publish_answer(self._live, replace(answer, state="done", figures=figures))

    def _restart(self, order: NodeOrder) -> dict[str, float]:
        """Stop after those nodes that need this one for an orderly end; start after those that this
        one needs."""
        begin, spec = time.monotonic(), self._server.node.spec
        others = [s for s in self._specs if s.name in order.nodes and s.name != self._name]
        self._await(order, {s.name for s in others if s.role in spec.outlives}, "stopped", "done")
        if not self._down:
            self._server.stop()
        self._down = True
        stopped = time.monotonic()
        publish_answer(self._live, Answer(order.id, self._name, "stopped"))
        self._await(order, {s.name for s in others if s.role in spec.after}, "done")
        self._start_again()
        return {"stop_time": stopped - begin, "restart_time": time.monotonic() - begin}

    def _kill(self, order: NodeOrder) -> dict[str, float]:
        at = order.at + self._offset if order.at is not None else 0.0
        while (left := at - time.time()) > 0:
            self._watch(min(left, LOOK_EVERY))
        killed = time.time()
        self._server.kill()
        self._down = True
        figures = {"killed_at": killed - self._offset}
        return {**figures, **self._start(killed)} if order.again else figures

    def _start(self, killed: float) -> dict[str, float]:
        if not self._down:
            raise EngineError(f"{self._name}: told to start its server, which runs")
        self._start_again()
        answering = time.time()
        return {"answering_at": answering - self._offset, "recovery_time": answering - killed}

    def _start_again(self) -> None:
        self._server.again(self._check)
        self._down = False
        self._restarted()

    def _slow(self, order: NodeOrder) -> dict[str, float]:
        slow = Slow.model_validate(order.slow)
        if self._slowing is not None:
            raise EngineError(
                f"{self._name}: is slowed already, end that first ({self._slowing.slow.words()})"
            )
        slowing = Slowing(self._server.node, slow, self._server.log)
        begin = time.monotonic()
        slowing.start(self._check)
        self._slowing = slowing
        self._log.info("slowed: %s", slow.words())
        return {"slow_start_time": time.monotonic() - begin}

    def _stop_slow(self, order: NodeOrder) -> dict[str, float]:
        slowing, self._slowing = self._slowing, None
        return slowing.stop() if slowing is not None else {}

    def _await(self, order: NodeOrder, names: set[str], *states: str) -> None:
        """Wait until other nodes of the same order are in one of these states."""
        while names:
            answers = answers_to(self._live, order)
            if failed := [a for a in answers.values() if a.state == "failed"]:
                raise EngineError(f"{failed[0].node} could not: {failed[0].error}")
            names -= {name for name, answer in answers.items() if answer.state in states}
            self._watch(LOOK_EVERY if names else 0.0)

    def _watch(self, seconds: float) -> None:
        """Watch the server for some seconds; raises if it fails or the trial is to end."""
        self._check()
        if (text := self.failure(seconds)) is not None:
            raise EngineError(text)
