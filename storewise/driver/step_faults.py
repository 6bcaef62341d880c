"""Faults around a step: servers restarted before it, nodes slowed or killed in it.

Worker 0 gives the orders, which the nodes' own jobs carry out (`storewise.session.faults.orders`);
the others wait for it at barriers. Embedded stores have no servers, so nothing is ordered for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from storewise.driver.results import StepResult
from storewise.driver.worker_job import Step, WorkerJob
from storewise.engines.registry import engine
from storewise.metrics.outages import BIN, Marks, longest, merged, outages
from storewise.metrics.schema import METRICS, Sample
from storewise.session.faults.orders import Answer, NodeOrder, Orders
from storewise.workloads.contract import Operation


class StepFaults:
    """The faults of one worker's steps; `meet` waits at a barrier of all workers."""

    def __init__(
        self,
        job: WorkerJob,
        meet: Callable[[str], None],
        check: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._job, self._meet, self._log = job, meet, log
        engine_ = engine(job.trial.engine)
        self._servers, self._roles = not engine_.flags.embedded, engine_.data_roles
        self._gives_orders = self._servers and job.worker == 0
        self._orders = Orders(job.live, check, engine=engine_.name, data_roles=self._roles)
        self._kill: NodeOrder | None = None
        self._slowed: tuple[str, ...] = ()
        self._victim: tuple[str, float] = ("", 0.0)
        self.crashes: list[dict[str, Any]] = []
        """Crashes, for the result's conditions: each with its node, the planned time of the kill
        (s from the step's start), and the outages that this worker's clients saw."""

    def restart(self, step: Step) -> None:
        """Restart all servers; to be called when this worker's clients are closed."""
        if not self._servers:
            return
        name = f"{self._job.phase}-{step.number}"
        self._meet(f"{name}-closed")
        if self._gives_orders:
            self._log.info("step %d: restarting all servers", step.number)
            self._orders.restart()
        self._meet(f"{name}-restarted")

    def begin(self, step: Step) -> None:
        """Before all workers start a step: slow nodes down."""
        slow = step.params.slow
        if slow is not None and slow.nodes and self._gives_orders:
            self._log.info("step %d: slowing nodes: %s", step.number, slow.words())
            self._slowed = tuple(self._orders.slow(slow))

    def started(self, step: Step, at: float) -> None:
        """A step has started at Unix time `at`: have a node killed at its moment."""
        crash = step.params.crash
        if crash is None or not self._servers:
            return
        nodes, seed = self._orders.nodes(), self._job.trial.seed
        self._victim = node, moment = crash.drawn(nodes, self._roles, seed, step.number)
        if self._gives_orders:
            self._log.info("step %d: %s is to be killed after %.3f s", step.number, node, moment)
            self._kill = self._orders.give("kill", [node], at=at + moment, again=crash.restart)

    def end(self, result: StepResult) -> list[Sample]:
        """After a step: undo its faults; what nodes and clients measured meanwhile."""
        step, samples = result.step, list[Sample]()
        if step.params.slow is None and step.params.crash is None:
            return samples
        if step.kills_nodes and self._servers:
            samples += self._outages(result)
        # The operations of all workers have ended: what follows is no part of the step.
        self._meet(f"{self._job.phase}-{step.number}-worked")
        if self._kill is not None:
            answers = self._orders.await_done(self._kill)
            samples += self._figures(step, answers)
            if not self._kill.again:
                self._orders.await_done(self._orders.give("start", list(answers)))
        if self._slowed:
            samples += self._figures(step, self._orders.stop_slow(self._slowed))
        self._kill, self._slowed = None, ()
        self._meet(f"{self._job.phase}-{step.number}-ended")
        return samples

    def _outages(self, result: StepResult) -> list[Sample]:
        """The longest times without a success of this worker's clients: in all, and by node."""
        number, (node, moment) = result.step.number, self._victim
        seen = outages(merged(p.marks for p in result.processes), result.zero, result.end)
        self.crashes.append({"step": number, "node": node, "after": moment, "outages": seen})
        time = longest(seen[""], moment)
        self._log.info("step %d: without a success for %.3f s after the kill", number, time)
        return [
            Sample(
                *(self._job.phase, "unavailable_time", longest(times, moment), "s", number),
                worker=self._job.worker,
                node=owner or None,
            )
            for owner, times in seen.items()
        ]

    def _figures(self, step: Step, answers: Mapping[str, Answer]) -> list[Sample]:
        return [
            Sample(self._job.phase, name, value, METRICS[name], step.number, node=node)
            for node, answer in answers.items()
            for name, value in answer.figures.items()
            if name in METRICS
        ]


def mark_successes(operations: Iterable[Operation], marks: Marks) -> Iterator[Operation]:
    """The same operations; the time of each success is added to `marks`."""
    all_marks = marks.setdefault("", set())
    for operation in operations:
        owner = operation.owner
        of_owner = marks.setdefault(owner, set()) if owner is not None else all_marks
        yield operation._replace(call=_marking(operation.call, all_marks, of_owner))


def _marking(call: Callable[[], int], all_marks: set[int], of_owner: set[int]) -> Callable[[], int]:
    def run() -> int:
        documents = call()
        at = perf_counter_ns() // BIN
        all_marks.add(at)
        of_owner.add(at)
        return documents

    return run
