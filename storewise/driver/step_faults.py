"""What happens to the servers around a step: a restart before it, nodes slowed or killed in it.

Worker 0 gives the orders, which the nodes' own jobs carry out (`storewise.session.faults.orders`);
the others wait for it at barriers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from storewise.driver.results import StepDone
from storewise.driver.worker_job import Step, WorkerJob
from storewise.engines.registry import engine
from storewise.metrics.outages import BIN, Marks, longest, merged, outages
from storewise.metrics.schema import METRICS, Sample
from storewise.session.faults.orders import Answer, NodeOrder, Orders
from storewise.workloads.contract import Operation


class StepFaults:
    """The orders around the steps of one worker; `meet` waits at a barrier of all workers."""

    def __init__(
        self,
        job: WorkerJob,
        embedded: bool,
        meet: Callable[[str], None],
        check: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._job, self._embedded, self._meet, self._log = job, embedded, meet, log
        self._roles = engine(job.trial.engine).data_roles
        self._orders = Orders(job.live, check, engine=job.trial.engine, data_roles=self._roles)
        self._kill: NodeOrder | None = None
        self._slowed: tuple[str, ...] = ()
        self._victim: tuple[str, float] = ("", 0.0)
        self.crashes: list[dict[str, Any]] = []
        """For the result's conditions: of each step with a crash its node, when it was to be
        killed (s from the step's start), and the outages that this worker's clients saw."""

    def restart(self, step: Step) -> None:
        """Restart all servers; to be called when this worker's clients are closed.

        The stores of an embedded engine are closed by that, and nothing else is to be done.
        """
        if self._embedded:
            return
        name = f"{self._job.phase}-{step.number}"
        self._meet(f"{name}-closed")
        if self._job.worker == 0:
            self._log.info("step %d: restarting all servers", step.number)
            self._orders.restart()
        self._meet(f"{name}-restarted")

    def begin(self, step: Step) -> None:
        """Before a step's barrier: slow nodes down."""
        slow = step.params.slow
        if slow is not None and slow.nodes and self._job.worker == 0 and not self._embedded:
            self._log.info("step %d: slowing nodes: %s", step.number, slow.words())
            self._slowed = tuple(self._orders.slow(slow))

    def started(self, step: Step, at: float) -> None:
        """After a step has started, at Unix time `at`: have a node killed at its moment."""
        crash = step.params.crash
        if crash is None or self._embedded:
            return
        self._victim = crash.drawn(
            self._orders.nodes(), self._roles, self._job.trial.seed, step.number
        )
        if self._job.worker != 0:
            return
        node, moment = self._victim
        self._log.info("step %d: %s is to be killed after %.3f s", step.number, node, moment)
        self._kill = self._orders.give("kill", [node], at=at + moment, again=crash.restart)

    def end(self, measured: StepDone) -> list[Sample]:
        """After a step: undo what was done, and say what nodes and clients measured meanwhile."""
        step = measured.step
        samples: list[Sample] = []
        if step.params.slow is None and step.params.crash is None:
            return samples
        if step.params.crash is not None and not self._embedded:
            samples += self._outages(measured)
        # The operations of all workers have ended: what follows is no part of the step.
        self._meet(f"{self._job.phase}-{step.number}-worked")
        if self._job.worker == 0:
            if self._kill is not None:
                answers = self._orders.await_done(self._kill)
                samples += self._samples(step, answers)
                if not self._kill.again:
                    self._orders.await_done(self._orders.give("start", list(answers)))
            if self._slowed:
                samples += self._samples(step, self._orders.stop_slow(self._slowed))
            self._kill, self._slowed = None, ()
        self._meet(f"{self._job.phase}-{step.number}-ended")
        return samples

    def _outages(self, measured: StepDone) -> list[Sample]:
        """How long this worker's clients had no success: over all, and of the killed node."""
        node, moment = self._victim
        seen = outages(merged(d.marks for d in measured.done), measured.zero, measured.end)
        number = measured.step.number
        self.crashes.append({"step": number, "node": node, "after": moment, "outages": seen})
        self._log.info(
            "step %d: without a success for %.3f s after the kill",
            number,
            longest(seen[""], moment),
        )
        return [
            Sample(
                *(self._job.phase, "unavailable_time", longest(times, moment), "s", number),
                worker=self._job.worker,
                node=owner or None,
            )
            for owner, times in seen.items()
        ]

    def _samples(self, step: Step, answers: Mapping[str, Answer]) -> list[Sample]:
        return [
            Sample(self._job.phase, name, value, METRICS[name], step.number, node=node)
            for node, answer in answers.items()
            for name, value in answer.figures.items()
            if name in METRICS
        ]


def marked(operations: Iterable[Operation], marks: Marks) -> Iterator[Operation]:
    """The same operations, whose successes are marked in `marks`."""
    everything = marks.setdefault("", set())
    for operation in operations:
        owner = operation.owner
        owned = marks.setdefault(owner, set()) if owner is not None else everything
        yield operation._replace(call=_marking(operation.call, everything, owned))


def _marking(call: Callable[[], int], everything: set[int], owned: set[int]) -> Callable[[], int]:
    def run() -> int:
        documents = call()
        at = perf_counter_ns() // BIN
        everything.add(at)
        owned.add(at)
        return documents

    return run
