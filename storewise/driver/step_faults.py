"""What happens to the servers around a step: a restart before it, nodes slowed or killed in it.

Worker 0 gives the orders, which the nodes' own jobs carry out (`storewise.session.faults.orders`);
the others wait for it at barriers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from storewise.driver.results import StepDone
from storewise.driver.worker_job import Step, WorkerJob
from storewise.metrics.outages import longest, merged, outages
from storewise.metrics.schema import METRICS, Sample

if TYPE_CHECKING:
    from storewise.session.faults.orders import Answer, NodeOrder, Orders


class Events:
    """The orders around the steps of one worker; `meet` waits at a barrier of all workers."""

    def __init__(
        self, job: WorkerJob, embedded: bool, meet: Callable[[str], None], log: logging.Logger
    ) -> None:
        self._job, self._embedded, self._meet, self._log = job, embedded, meet, log
        self._kill_order: NodeOrder | None = None
        self._slowed: tuple[str, ...] = ()
        self._crashing: tuple[str, float] = ("", 0.0)
        self.crashes: list[dict[str, Any]] = []
        """For the result's conditions: of each step with a crash its node, when it was to be
        killed (s from the step's start), and the outages that this worker's clients saw."""

    def restart(self, step: Step, check: Callable[[], None]) -> None:
        """Restart all servers; to be called when this worker's clients are closed.

        The stores of an embedded engine are closed by that, and nothing else is to be done.
        """
        if self._embedded:
            return
        name = f"{self._job.phase}-{step.number}"
        self._meet(f"{name}-closed")
        if self._job.worker == 0:
            self._log.info("step %d: restarting all servers", step.number)
            self._orders(check).restart()
        self._meet(f"{name}-restarted")

    def begin(self, step: Step, check: Callable[[], None]) -> None:
        """Before a step's barrier: slow nodes down."""
        slow = step.params.slow
        if slow is not None and slow.nodes and self._job.worker == 0 and not self._embedded:
            self._log.info("step %d: slowing nodes: %s", step.number, slow.words())
            self._slowed = tuple(self._orders(check).slow(slow))

    def started(self, step: Step, at: float, check: Callable[[], None]) -> None:
        """After a step has started, at Unix time `at`: have a node killed at its moment."""
        crash = step.params.crash
        if crash is None or self._embedded:
            return
        orders = self._orders(check)
        self._crashing = crash.drawn(orders.nodes(), self._job.trial.seed, step.number)
        if self._job.worker != 0:
            return
        node, moment = self._crashing
        self._log.info("step %d: %s is to be killed after %.3f s", step.number, node, moment)
        self._kill_order = orders.give("kill", [node], at=at + moment, again=crash.restart)

    def end(self, found: StepDone, check: Callable[[], None]) -> list[Sample]:
        """After a step: undo what was done, and say what nodes and clients measured meanwhile."""
        step = found.step
        samples: list[Sample] = []
        if step.params.slow is None and step.params.crash is None:
            return samples
        if step.params.crash is not None and not self._embedded:
            samples += self._outages(found)
        # The operations of all workers have ended: what follows is no part of the step.
        self._meet(f"{self._job.phase}-{step.number}-worked")
        if self._job.worker == 0:
            orders = self._orders(check)
            if self._kill_order is not None:
                answers = orders.await_done(self._kill_order)
                samples += self._samples(step, answers)
                if not self._kill_order.again:
                    orders.await_done(orders.give("start", list(answers)))
            if self._slowed:
                samples += self._samples(step, orders.stop_slow(self._slowed))
            self._kill_order, self._slowed = None, ()
        self._meet(f"{self._job.phase}-{step.number}-ended")
        return samples

    def _outages(self, found: StepDone) -> list[Sample]:
        """How long this worker's clients had no success: over all, and of the killed node."""
        node, moment = self._crashing
        seen = outages(
            merged(done.marks for done in found.done),
            found.zero,
            max(done.end for done in found.done),
        )
        self.crashes.append(
            {"step": found.step.number, "node": node, "after": moment, "outages": seen}
        )
        phase, step, worker = self._job.phase, found.step.number, self._job.worker
        self._log.info(
            "step %d: without a success for %.3f s after the kill", step, longest(seen[""], moment)
        )
        return [
            Sample(
                *(phase, "unavailable_time", longest(times, moment), "s", step),
                worker=worker,
                node=owner or None,
            )
            for owner, times in seen.items()
        ]

    def _orders(self, check: Callable[[], None]) -> Orders:
        from storewise.session.faults.orders import Orders

        return Orders(self._job.live, check, engine=self._job.trial.engine)

    def _samples(self, step: Step, answers: Mapping[str, Answer]) -> list[Sample]:
        return [
            Sample(self._job.phase, name, value, METRICS[name], step.number, node=node)
            for node, answer in answers.items()
            for name, value in answer.figures.items()
            if name in METRICS
        ]
