"""Orders of a worker to the node jobs of its session: restart, kill, slow.

They go through files of the trial's live directory, written aside and renamed, which the node jobs
look for a few times per second:

| file | written by | meaning |
|---|---|---|
| ``orders/<order>.json`` | a worker | what is asked of which nodes |
| ``ordered/<order>.<node>.json`` | a node's job | how far it has come, what it measured |

Everything is done by the node's own job (`executor`), which knows its server.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from storewise.atomic import read_as
from storewise.errors import EngineError
from storewise.session.coordination.cluster import clock_offset, publish, ready_nodes
from storewise.session.coordination.system import SYSTEM, System
from storewise.waiting import wait_for
from storewise.workloads.faults import Slow

ORDERS = "orders"
ORDERED = "ordered"
#: How often answers are looked for, s.
LOOK = 0.1
#: Until a node whose job was asked must have begun, s: it may be busy, or its file system slow.
BEGIN_SECONDS = 60.0

What = Literal["restart", "kill", "start", "slow", "stop_slow"]


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """One order, as its file has it."""

    id: str
    what: What
    nodes: tuple[str, ...]
    at: float | None = None
    """When to do it, Unix time of the session's file system; at once where there is none."""
    again: bool = True
    """After a kill: start the server again."""
    slow: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Progress of a node with an order."""

    order: str
    node: str
    state: Literal["begun", "stopped", "done", "failed"]
    error: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What was measured: ``killed_at``, ``answering_at`` (Unix time of the session's file system),
    ``recovery_time`` (s), ``slow_bytes`` (B), ``slow_cpu`` (s) ..."""


class Orders:
    """Gives orders to the nodes of a session; one object per worker job.

    Every method that waits calls `check` meanwhile, which raises when the trial is to end, and
    raises EngineError with the node's own words (and the end of its server's log) where a node
    could not do it, or does not answer.
    """

    def __init__(
        self,
        live: Path,
        check: Callable[[], None] = lambda: None,
        *,
        engine: str = "the engine",
        data_roles: Sequence[str] = ("data",),
        system: System = SYSTEM,
    ) -> None:
        self._live, self._check, self._engine = live, check, engine
        self._data_roles, self._system = data_roles, system

    def nodes(self) -> tuple[str, ...]:
        """The nodes that take orders, by role and number."""
        return tuple(sorted(ready_nodes(self._live), key=_place))

    def restart(self, names: Sequence[str] | None = None) -> dict[str, Answer]:
        """Stop servers in order and start them on the same data, ports and addresses; returns when
        each has said that it answers. All nodes, or those named."""
        return self.await_done(self.give("restart", names))

    def slow(self, slow: Slow) -> dict[str, Answer]:
        """Slow nodes down; returns when each has seen that it is slowed."""
        names = slow.chosen(self.nodes(), self._data_roles)
        return self.await_done(self.give("slow", names, slow=slow))

    def stop_slow(self, names: Sequence[str] | None = None) -> dict[str, Answer]:
        """End all slowing of these nodes (default: all); figures tell what it did. EngineError
        where it had ended early."""
        return self.await_done(self.give("stop_slow", names))

    def give(
        self,
        what: What,
        names: Sequence[str] | None = None,
        *,
        at: float | None = None,
        again: bool = True,
        slow: Slow | None = None,
    ) -> NodeOrder:
        """Give an order without waiting (`await_done`). `at` is Unix time of this host's clock.

        ``kill`` sends SIGKILL to all processes of a server at once, and starts it again unless
        `again` is false; its figures are killed_at, answering_at and recovery_time.
        """
        chosen = self._known(names)
        if at is not None:
            at -= clock_offset(self._live, f"orders.{os.getpid()}")
        order = NodeOrder(
            f"{time.time_ns():020d}-{secrets.token_hex(3)}",
            what,
            chosen,
            at,
            again,
            slow.model_dump(mode="json", exclude_unset=True) if slow is not None else None,
        )
        publish(self._live, ORDERS, order.id, order)
        return order

    def await_done(self, order: NodeOrder) -> dict[str, Answer]:
        """Wait until all nodes have carried out the order; their answers by node."""
        begin = self._system.clock() + BEGIN_SECONDS
        if order.at is not None:
            begin += max(0.0, order.at - self._system.time())
        answers: dict[str, Answer] = {}

        def done() -> bool:
            nonlocal answers
            answers = answers_to(self._live, order)
            for answer in answers.values():
                if answer.state == "failed":
                    raise EngineError(f"{answer.node} was told to {_verb(order)}: {answer.error}")
            return all(n in answers and answers[n].state == "done" for n in order.nodes)

        def check() -> None:
            self._check()
            missing = [name for name in order.nodes if name not in answers]
            if missing and self._system.clock() > begin:
                raise EngineError(
                    f"{', '.join(missing)}: told to {_verb(order)} {BEGIN_SECONDS:.0f} s ago and "
                    "has not begun; the log of its job says why"
                )

        wait_for(done, check=check, poll=LOOK, clock=self._system.clock, sleep=self._system.sleep)
        return answers

    def _known(self, names: Sequence[str] | None) -> tuple[str, ...]:
        known = self.nodes()
        if not known:
            raise EngineError(
                f"{self._engine} has no servers on nodes of their own here: what is embedded or "
                "runs beside the workers can be neither restarted, slowed nor killed by a node"
            )
        if names is None:
            return known
        if missing := [name for name in names if name not in known]:
            raise EngineError(
                f"the session has no node {', '.join(missing)}; it has {', '.join(known)}"
            )
        return tuple(names)


def answers_to(live: Path, order: NodeOrder) -> dict[str, Answer]:
    """The answers to an order, by node.

    The directory is listed anew each time, which makes an NFS client ask its server.
    """
    answers = (read_as(Answer, path) for path in (live / ORDERED).glob(f"{order.id}.*.json"))
    return {answer.node: answer for answer in answers}


def publish_answer(live: Path, answer: Answer) -> None:
    """Publish the state of a node's order; the next state replaces it."""
    publish(live, ORDERED, f"{answer.order}.{answer.node}", answer)


def orders_for(live: Path, node: str, known: set[str]) -> list[NodeOrder]:
    """Orders to a node that are not among the `known` ids (which grow), oldest first.

    The directory is listed anew each time, which makes an NFS client ask its server.
    """
    new = [path for path in sorted((live / ORDERS).glob("[!.]*.json")) if path.name not in known]
    known.update(path.name for path in new)
    orders = [read_as(NodeOrder, path) for path in new]
    return [order for order in orders if node in order.nodes]


def _place(name: str) -> tuple[str, int]:
    role = name.rstrip("0123456789")
    return (role, int(name[len(role) :] or 0))


def _verb(order: NodeOrder) -> str:
    if order.slow is not None:
        return f"be slow ({Slow.model_validate(order.slow).words()})"
    return {"stop_slow": "end its slowing", "kill": "be killed and start again"}.get(
        order.what, order.what
    )
