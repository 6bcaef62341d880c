"""How a node's job does what workers of its trial ask of it (`storewise.session.faults.orders`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from storewise.engines.contract.server import NodeSpec
from storewise.errors import EngineError, StorewiseError
from storewise.session.faults.orders import Answer, NodeOrder, answer, answers_to, orders_for
from storewise.session.faults.slowdown import Slowing
from storewise.session.server.server import Server
from storewise.workloads.faults import Slow

#: How often a node looks for orders and after its server, s.
LOOK_EVERY = 0.2


class Obedience:
    """The orders of one node: its server stopped, killed, started again, slowed."""

    def __init__(
        self,
        server: Server,
        specs: tuple[NodeSpec, ...],
        live: Path,
        *,
        check: Callable[[], None],
        log: logging.Logger,
        offset: float,
        renewed: Callable[[], None],
    ) -> None:
        """`offset` is this host's clock ahead of the session's, s; `renewed` is called when the
        server has been started again, with a new process."""
        self._server, self._specs, self._live = server, specs, live
        self._check, self._log, self._offset = check, log, offset
        self._renewed = renewed
        self._name = server.node.spec.name
        self._seen: set[str] = set()
        self._slowings: list[Slowing] = []
        self._down = False

    def look(self) -> None:
        """Do what is asked; raises EngineError where a slowing has ended early, or the server
        could not be started again (the asker is told, too)."""
        for slowing in self._slowings:
            slowing.raise_if_ended()
        for order in orders_for(self._live, self._name, self._seen):
            self._do(order)

    def failure(self, wait: float) -> str | None:
        """As the server's own, but one that is down by order has not failed."""
        if self._down:
            time.sleep(wait)
            return None
        return self._server.failure(wait)

    def end(self) -> list[str]:
        """End all slowing; returns what could not be undone, in words."""
        left = [slowing.end() for slowing in self._slowings]
        self._slowings.clear()
        return [words for words in left if words]

    def _do(self, order: NodeOrder) -> None:
        said = Answer(order.id, self._name, "begun")
        answer(self._live, order, said)
        self._log.info("order %s: %s", order.id, order.what)
        try:
            if order.what == "restart":
                figures = self._restart(order, said)
            elif order.what == "kill":
                figures = self._kill(order)
            elif order.what == "start":
                figures = self._start(time.time())
            elif order.what == "slow":
                figures = self._slow(order)
            else:
                figures = self._stop_slow()
        except StorewiseError as error:
            answer(self._live, order, replace(said, state="failed", error=str(error)))
            if order.what == "slow" and isinstance(error, EngineError):
                self._log.error("%s", error)  # the asker ends the trial; the server is well
                return
            raise
        self._log.info("done: %s", ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
        answer(self._live, order, replace(said, state="done", figures=figures))

    def _restart(self, order: NodeOrder, said: Answer) -> dict[str, float]:
        begin = time.monotonic()
        own = self._server.node.spec
        others = [s for s in self._specs if s.name in order.nodes and s.name != self._name]
        self._await(order, {s.name for s in others if s.role in own.outlives}, "stopped")
        if not self._down:
            self._server.stop()
        self._down = True
        stopped = time.monotonic()
        answer(self._live, order, replace(said, state="stopped"))
        self._await(order, {s.name for s in others if s.role in own.after}, "done")
        self._again()
        return {"stop_time": stopped - begin, "restart_time": time.monotonic() - begin}

    def _kill(self, order: NodeOrder) -> dict[str, float]:
        at = order.at + self._offset if order.at is not None else 0.0
        while (left := at - time.time()) > 0:
            self._check()
            if (text := self.failure(min(left, LOOK_EVERY))) is not None:
                raise EngineError(text)
        killed = time.time()
        self._server.kill()
        self._down = True
        figures = {"killed_at": killed - self._offset}
        if not order.again:
            return figures
        return {**figures, **self._start(killed)}

    def _start(self, killed: float) -> dict[str, float]:
        if not self._down:
            raise EngineError(f"{self._name}: told to start its server, which runs")
        self._again()
        answering = time.time()
        return {"answering_at": answering - self._offset, "recovery_time": answering - killed}

    def _again(self) -> None:
        self._server.again(self._check)
        self._down = False
        self._renewed()

    def _await(self, order: NodeOrder, names: set[str], state: str) -> None:
        """Wait until other nodes of the same order have come so far."""
        far = {"stopped", "done"} if state == "stopped" else {"done"}
        while names:
            found: Mapping[str, Answer] = answers_to(self._live, order)
            if failed := [a for a in found.values() if a.state == "failed"]:
                raise EngineError(f"{failed[0].node} could not: {failed[0].error}")
            names = {n for n in names if n not in found or found[n].state not in far}
            self._check()
            if not self._down and (text := self._server.failure()) is not None:
                raise EngineError(text)
            time.sleep(LOOK_EVERY if names else 0.0)

    def _slow(self, order: NodeOrder) -> dict[str, float]:
        slow = Slow.model_validate(order.slow)
        if self._slowings:
            raise EngineError(f"{self._name}: is slowed already ({self._slowings[0].slow.words()})")
        slowing = Slowing(self._server.node, slow, self._live, self._server.log)
        begin = time.monotonic()
        slowing.start(self._check)
        self._slowings.append(slowing)
        self._log.info("slowed: %s", slow.words())
        return {"slow_start_time": time.monotonic() - begin}

    def _stop_slow(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        while self._slowings:
            figures |= self._slowings.pop().stop()
        return figures
