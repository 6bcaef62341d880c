"""Closing: tell the nodes to end, wait until all have, and keep the session's times."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from storewise.errors import StorewiseError
from storewise.metrics.schema import Sample
from storewise.session.coordination.cluster import STOP, gone_nodes, read_cluster, ready_nodes
from storewise.session.coordination.liveness import FINISHED
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.coordination.trial_part import write_trial_part
from storewise.session.jobs.node import LOOK_EVERY, PHASE
from storewise.study.trial import Trial, node_jobs
from storewise.waiting import wait_for

#: Longer than the longest orderly end of a server.
STOP_SECONDS = 120.0


def run_close(
    trial: Trial,
    cluster: Path,
    result: Path,
    job: TrialJob,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """End the nodes of a session in order and write its result part.

    `cluster` is the file of the formed cluster. Raises Aborted when the trial ends, StorewiseError
    that names the nodes which have not ended in time. `clock` and `sleep` are in s.
    """
    live, session = job.live, job.session
    formed = read_cluster(cluster)
    names = [spec.name for spec in node_jobs(trial)]
    ready = ready_nodes(live)
    start = clock()
    (live / STOP).touch()
    job.log.info("closing %s", ", ".join(names))

    def missing() -> list[str]:
        return [name for name in names if name not in gone_nodes(live)]

    ended = partial(wait_for, lambda: not missing(), clock=clock, sleep=sleep)
    if not ended(STOP_SECONDS, job.check, poll=LOOK_EVERY):
        where = ", ".join(f"{n} on host {ready[n].endpoint.host}" for n in missing())
        raise StorewiseError(
            f"{where}: told to end {STOP_SECONDS:.0f} s ago and still running; their logs say why"
        )
    took = clock() - start
    job.log.info("all nodes have gone after %.1f s", took)
    write_trial_part(
        result,
        [
            Sample(PHASE, "form_time", formed.form_seconds, "s"),
            Sample(PHASE, "formed_time", formed.formed_at - session.opened, "s"),
            Sample(PHASE, "close_time", took, "s"),
        ],
        trial,
        PHASE,
        nodes={
            name: {
                "host": ready[name].endpoint.host,
                "address": ready[name].endpoint.address,
                "version": ready[name].version,
                "guard": ready[name].guard,
            }
            for name in names
        },
        warnings=list(formed.warnings),
        run=session.run,
        opened=session.opened,
    )
    (live / FINISHED).touch()
