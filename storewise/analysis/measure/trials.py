"""What trials measured, reduced from their samples: nothing here is per worker and second.

The samples of a large study do not fit into memory, and need not: each figure is made of the
samples of one trial. So trials are taken some at a time (`measure`), in whatever processes, and
their figures put together (`together`); how many at a time makes no difference to any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.common.engines import replica_factor
from storewise.analysis.common.frames import joined, numbered
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.files.parts import SESSION, HdrLog, Part, threads_of, whole_phases
from storewise.analysis.measure import host_load as hosts
from storewise.analysis.measure import latency as latencies
from storewise.analysis.measure import node_load as servers
from storewise.analysis.measure import per_node as owners
from storewise.analysis.measure import throughput as rates
from storewise.analysis.measure.breakeven import clients_at_once, load_times, question_times
from storewise.analysis.measure.points import mean_times
from storewise.analysis.measure.sessions import nodes, sessions
from storewise.analysis.measure.steps import measured_steps, step_parameters
from storewise.analysis.measure.storage import node_storage, storage
from storewise.analysis.measure.throughput import STEP
from storewise.analysis.measure.verification import verification
from storewise.analysis.model.results import Measured

#: Of operations, by worker, process and second.
_COUNTERS = ("operations", "documents", "bytes", "errors", "service_time_sum", "prepare_time_sum")
#: Of hosts and processes, by second.
_LOAD = (
    *hosts.HOST_METRICS,
    "sample_length",
    *(f"{who}_{what}" for who in ("client", "store", "router") for what in ("cpu", "rss")),
)
#: Columns that these need.
_OF_LOAD = [*hosts.PLACE, "worker", "process", "metric", "value"]


@dataclass(frozen=True, slots=True)
class Study:
    """What the figures of its trials depend on: the inputs, and whether it has the files themselves
    (else `question_times` and `load_times` stay empty) and published studies (else `mean_times`)
    to compare with."""

    inputs: InputTotals | None = None
    files: bool = True
    published: bool = True


def measure(
    parts: Sequence[Part],
    logs: Sequence[HdrLog],
    rows: pd.DataFrame,
    study: Study,
    totals: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
) -> Measured:
    """The figures of some trials from all their parts, logs and samples.

    `rows` has the columns of the result schema, text as categories. Reads the logs but for those of
    which `totals` has the sums, by trial and phase (payloads by tag).
    """
    kept = of_phases(rows, whole_phases(parts))
    timed = rows["second"].notna().to_numpy()
    counts = timed & rows["metric"].isin(_COUNTERS).to_numpy()
    by_load = timed & rows["metric"].isin(_LOAD).to_numpy()
    rest = ~(counts | by_load)
    others = rows[rest]
    session = rows[(rows["phase"] == SESSION).to_numpy()]
    samples = _summed(others[kept[rest]], rows[kept & counts])
    of_hosts = rows.loc[kept & by_load, _OF_LOAD]
    walls = rates.durations(samples)

    nothing = samples.iloc[:0]
    against_files = samples if study.files else nothing
    series = rates.series(samples)
    parameters = step_parameters(parts)
    conditions = owners.step_conditions(parts, others)
    node_table = nodes(parts, session)
    session_table = sessions(node_table, session)
    partial = {p.trial for p in parts if (p.factors.get("volume") or 1) < 1}
    stored = storage(samples, study.inputs, partial)
    times = {p.trial: replica_factor(p.factors) for p in parts}
    sampled = hosts.host_samples(of_hosts)
    load = hosts.host_load(of_hosts, sampled, walls)
    cpu = hosts.by_second(sampled)
    of_nodes = servers.node_samples(joined([samples, session]))
    host = _by_trial([load, servers.node_load(of_nodes, load)])
    cpu = _by_trial([cpu, servers.node_cpu(of_nodes, cpu)])
    balance = servers.balance(samples)
    checked = verification(others)
    histograms, by_owner, warnings = latencies.histograms(parts, logs, totals)
    rated = samples.loc[samples["metric"] == "target_rate", STEP].drop_duplicates()
    return Measured(
        trials=_trials(rows),
        series=series,
        throughput=rates.throughput(
            samples,
            series,
            threads={(p.trial, p.phase): threads_of(p) for p in parts},
            processes={p.trial: int(p.factors.get("processes", 1)) for p in parts},
        ),
        mean_times=mean_times(samples if study.published else nothing),
        question_times=question_times(against_files, clients_at_once(parts)),
        load_times=load_times(against_files),
        parameters=parameters,
        steps=measured_steps(samples, series, parameters),
        storage=_by_trial([stored, node_storage(session_table, samples, stored, times)]),
        load=load,
        host=host,
        cpu=cpu.astype(dict.fromkeys(("trial", "phase", "host"), "category")),
        balance=balance,
        conditions=conditions,
        per_node=owners.per_node(by_owner, balance, walls, host, node_table, conditions),
        crashes=owners.crashes(parts, others, checked),
        nodes=node_table,
        sessions=session_table,
        canary=hosts.canary(others),
        verification=checked,
        paced=set(rated.itertuples(index=False, name=None)),
        histograms=histograms,
        warnings=warnings,
    )


def together(lots: Sequence[Measured]) -> Measured:
    """The figures of several lots of trials, at least one, in their order."""
    values: dict[str, Any] = {}
    for name in (one.name for one in fields(Measured)):
        each = [getattr(one, name) for one in lots]
        if isinstance(each[0], pd.DataFrame):
            values[name] = joined(each)
        elif isinstance(each[0], Mapping):
            values[name] = {key: value for one in each for key, value in one.items()}
        else:
            values[name] = type(each[0])(item for one in each for item in one)
    return Measured(**values)


def of_phases(rows: pd.DataFrame, whole: Set[tuple[str, str]]) -> NDArray[np.bool_]:
    """Which samples are of phases of which every worker's part is there."""
    groups = numbered(rows, ["trial", "phase"])
    keys = rows[["trial", "phase"]].iloc[groups.first].itertuples(index=False)
    keep = np.array([(str(trial), str(phase)) in whole for trial, phase in keys], dtype=bool)
    return keep[groups.number]


def _summed(rest: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """The samples with the counts of each second summed over workers and processes.

    `counts` are the samples per second of _COUNTERS, `rest` all others. The counts of a step that
    has no totals are left as they are, for its totals are made of them; and where a worker reports
    its processes apart, its own sums are left out, as `throughput.counters` does.
    """
    counts, others = counts[counts["operation"].notna()], counts[counts["operation"].isna()]
    totals = rest[rest["second"].isna() & rest["operation"].notna()]
    both = pd.concat([counts[[*STEP, "metric"]], totals[[*STEP, "metric"]]])
    of_total = np.repeat([False, True], [len(counts), len(totals)])
    summable = numbered(both, [*STEP, "metric"]).any(of_total)[: len(counts)]
    left = counts[~summable]
    counts = rates.without_sums(counts[summable], [*STEP, "metric", "worker"])
    seconds = numbered(counts, [*STEP, "operation", "second", "warmup", "metric"])
    sums = counts.iloc[seconds.first].assign(
        value=seconds.sums(counts["value"]), worker=np.nan, process=np.nan
    )
    return pd.concat([rest, others, left, sums], ignore_index=True)


def _trials(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per trial with anything but what its nodes measured, and where that was."""
    groups = numbered(rows, ["trial", "phase", "host"])
    # In the order in which they come.
    each = rows[["trial", "repeat", "phase", "host"]].iloc[np.sort(groups.first)]
    each = each[each["phase"] != SESSION].astype({"trial": str, "phase": str, "host": str})
    table = each.groupby("trial", sort=False).agg(
        repeat=("repeat", "first"), phases=("phase", _listed), host=("host", _listed)
    )
    return table.reset_index()


def _listed(names: pd.Series) -> str:
    return ", ".join(names.unique())


def _by_trial(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables as one, each trial's rows together, lest their order tell which were read together."""
    if not any(map(len, tables[1:])):
        return tables[0]
    return joined(tables).sort_values("trial", kind="stable", ignore_index=True)
