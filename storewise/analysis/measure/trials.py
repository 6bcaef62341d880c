"""The figures of trials, reduced from their samples.

The samples of a large study do not fit into memory. Each figure needs the samples of one trial
only, so trials are reduced in batches (`measure`), in any process, and the figures concatenated
(`concatenate`); the size of a batch does not change any figure.
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

    `inputs` are those of the study. `rows` has the columns of the result schema. `totals` maps
    (trial, phase) to the sums of its logs (payloads by tag); a log is read only if they are missing
    there.
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


def concatenate(batches: Sequence[Measured]) -> Measured:
    """The figures of one or more batches of trials, in their order."""
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(Measured)):
        parts = [getattr(batch, name) for batch in batches]
        if isinstance(parts[0], pd.DataFrame):
            values[name] = joined(parts)
        else:
            values[name] = [item for part in parts for item in part]
    return Measured(**values)


def _clients_at_once(parts: Sequence[Part]) -> dict[StepKey, int]:
    """Concurrent clients of closed loops by trial, phase and step; open loops are left out."""
    return {
        (trial, phase, number): int(step["clients"])
        for (trial, phase), steps in steps_of(parts).items()
        for number, step in enumerate(steps)
        if step.get("clients") and step.get("rate") is None
    }


def _trials(samples: Reduction) -> pd.DataFrame:
    """One row per trial that has more than parts of nodes: repeat, phases and hosts."""
    return samples.table(
        "SELECT trial, min(repeat) AS repeat, "
        "string_agg(DISTINCT phase, ', ' ORDER BY phase) AS phases, "
        "string_agg(DISTINCT host, ', ' ORDER BY host) AS host "
        "FROM every_sample WHERE phase <> 'session' GROUP BY trial ORDER BY trial"
    )


def _by_trial(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables as one, sorted by trial, so that the row order does not depend on batches."""
    if not any(map(len, tables[1:])):
        return tables[0]
    return joined(tables).sort_values("trial", kind="stable", ignore_index=True)
