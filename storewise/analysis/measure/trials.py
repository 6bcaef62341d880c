"""What trials measured, reduced from their samples: nothing here is per worker and second.

The samples of a large study do not fit into memory, and need not: each figure is made of the
samples of one trial. So trials are taken some at a time (`measure`), in whatever processes, and
their figures put together (`together`); how many at a time makes no difference to any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pandas as pd
import pyarrow as pa

from storewise.analysis.common.engines import replica_factor
from storewise.analysis.common.frames import joined
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.files.parts import (
    HdrLog,
    Part,
    processes_of,
    steps_of,
    threads_of,
    whole_phases,
)
from storewise.analysis.measure import host_load as hosts
from storewise.analysis.measure import latency as latencies
from storewise.analysis.measure import per_node as owners
from storewise.analysis.measure import throughput as rates
from storewise.analysis.measure.measures import measures
from storewise.analysis.measure.reduction import Reduction
from storewise.analysis.measure.sessions import nodes, sessions
from storewise.analysis.measure.steps import step_parameters
from storewise.analysis.measure.storage import node_storage, storage
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.measure.verification import verification
from storewise.analysis.model.results import Measured


def measure(
    parts: Sequence[Part],
    logs: Sequence[HdrLog],
    rows: pa.Table,
    inputs: InputTotals | None,
    totals: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
) -> Measured:
    """The figures of some trials from all their parts, logs and samples.

    `inputs` are those of the study. `rows` has the columns of the result schema. Reads the logs but
    for those of which `totals` has the sums, by trial and phase (payloads by tag).
    """
    clients = {(p.trial, p.phase): (threads_of(p), processes_of(p)) for p in parts}
    samples = Reduction(rows, whole_phases(parts), clients)
    parameters = step_parameters(parts)
    conditions = owners.step_conditions(parts, samples)
    node_table = nodes(parts, samples)
    session_table = sessions(node_table, samples)
    partial = {p.trial for p in parts if (p.factors.get("volume") or 1) < 1}
    stored = storage(samples, inputs, partial)
    times = {p.trial: replica_factor(p.factors) for p in parts}
    host = hosts.host_load(samples)
    balance = samples.table("FROM balance ORDER BY ALL")
    checked = verification(samples)
    histograms, warnings = latencies.histograms(parts, logs, totals)
    walls = samples.table("SELECT trial, phase, step, wall FROM steps")
    texts = dict.fromkeys(("trial", "phase", "host"), "category")
    return Measured(
        trials=_trials(samples),
        series=rates.series(samples),
        measures=measures(
            samples,
            rates.throughput(samples),
            histograms,
            _by_trial([stored, node_storage(session_table, samples, stored, times)]),
            session_table,
            _clients_at_once(parts),
        ),
        parameters=parameters,
        host=host,
        cpu=hosts.cpu(samples).astype(texts),
        conditions=conditions,
        per_node=owners.per_node(histograms, balance, walls, host, node_table, conditions),
        crashes=owners.crashes(parts, samples, checked),
        nodes=node_table,
        verification=checked,
        warnings=warnings,
    )


def together(lots: Sequence[Measured]) -> Measured:
    """The figures of several lots of trials, at least one, in their order."""
    values: dict[str, Any] = {}
    for name in (one.name for one in fields(Measured)):
        each = [getattr(one, name) for one in lots]
        if isinstance(each[0], pd.DataFrame):
            values[name] = joined(each)
        else:
            values[name] = [item for one in each for item in one]
    return Measured(**values)


def _clients_at_once(parts: Sequence[Part]) -> dict[StepKey, int]:
    """Clients by trial, phase and step, of closed loops; an open loop does not share its time."""
    return {
        (trial, phase, number): int(step["clients"])
        for (trial, phase), steps in steps_of(parts).items()
        for number, step in enumerate(steps)
        if step.get("clients") and step.get("rate") is None
    }


def _trials(samples: Reduction) -> pd.DataFrame:
    """One row per trial with anything but what its nodes measured, and where that was."""
    return samples.table(
        "SELECT trial, min(repeat) AS repeat, "
        "string_agg(DISTINCT phase, ', ' ORDER BY phase) AS phases, "
        "string_agg(DISTINCT host, ', ' ORDER BY host) AS host "
        "FROM every_sample WHERE phase <> 'session' GROUP BY trial ORDER BY trial"
    )


def _by_trial(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables as one, each trial's rows together, lest their order tell which were read together."""
    if not any(map(len, tables[1:])):
        return tables[0]
    return joined(tables).sort_values("trial", kind="stable", ignore_index=True)
