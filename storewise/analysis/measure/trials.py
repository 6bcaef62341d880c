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

from storewise.analysis.common.frames import joined, numbered
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.files.parts import (
    SESSION,
    HdrLog,
    Part,
    processes_of,
    threads_of,
    whole_phases,
)
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
    to compare with (`asked` and `loaded`) and published studies (`mean_times`), without which these
    tables stay empty."""

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
    told = rows[rest]
    session = rows[(rows["phase"] == SESSION).to_numpy()]
    samples = _summed(told[kept[rest]], rows[kept & counts])
    of_hosts = rows.loc[kept & by_load, _OF_LOAD]
    walls = rates.durations(samples)

    nothing = samples.iloc[:0]
    asked = samples if study.files else nothing
    series = rates.series(samples)
    parameters = step_parameters(parts)
    conditions = owners.step_conditions(parts, told)
    node_table = nodes(parts, session)
    session_table = sessions(node_table, session)
    stored = storage(_with_volume(samples, parts), study.inputs)
    taken = hosts.host_samples(of_hosts)
    load = hosts.host_load(of_hosts, taken, walls)
    cpu = hosts.cpu_series(of_hosts, taken)
    of_nodes = servers.node_samples(joined([samples, session]))
    host = _by_trial([load, servers.node_load(of_nodes, load)])
    cpu = _by_trial([cpu, servers.node_cpu(of_nodes, cpu)])
    balance = servers.balance(samples)
    checked = verification(told)
    found, by_owner, warnings = latencies.histograms(parts, logs, totals)
    return Measured(
        trials=_trials(rows),
        series=series,
        throughput=rates.throughput(
            samples,
            series,
            threads={(p.trial, p.phase): threads_of(p) for p in parts},
            processes={p.trial: processes_of(p) for p in parts},
        ),
        mean_times=_plain(mean_times(samples if study.published else nothing)),
        asked=_plain(question_times(asked, clients_at_once(parts))),
        loaded=_plain(load_times(asked)),
        parameters=parameters,
        steps=measured_steps(samples, series, parameters),
        storage=_by_trial([stored, node_storage(session_table, stored)]),
        load=load,
        host=host,
        cpu=cpu.astype(dict.fromkeys(("trial", "phase", "host"), "category")),
        balance=balance,
        conditions=conditions,
        per_node=owners.per_node(by_owner, balance, walls, host, node_table, conditions),
        crashes=owners.crashes(parts, told, checked),
        nodes=node_table,
        sessions=session_table,
        canary=hosts.canary(told),
        verification=checked,
        paced=hosts.paced_steps(samples),
        histograms=found,
        warnings=warnings,
    )


def together(found: Sequence[Measured]) -> Measured:
    """The figures of several lots of trials, at least one, in their order."""
    values: dict[str, Any] = {}
    for name in (one.name for one in fields(Measured)):
        each = [getattr(one, name) for one in found]
        if isinstance(each[0], pd.DataFrame):
            values[name] = joined(each)
        elif isinstance(each[0], Mapping):
            values[name] = {key: value for one in each for key, value in one.items()}
        elif isinstance(each[0], Set):
            values[name] = set().union(*each)
        else:
            values[name] = [item for one in each for item in one]
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
    groups = numbered(both, [*STEP, "metric"])
    have = np.zeros(groups.groups, dtype=bool)
    have[groups.number[len(counts) :]] = True
    summable = have[groups.number[: len(counts)]]
    left, counts = counts[~summable], counts[summable]
    apart = counts["process"].notna().to_numpy()
    if apart.any() and not apart.all():
        of_worker = numbered(counts, [*STEP, "metric", "worker"])
        split = np.zeros(of_worker.groups, dtype=bool)
        split[of_worker.number[apart]] = True
        counts = counts[apart | ~split[of_worker.number]]
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
    found: dict[str, dict[str, Any]] = {}
    for trial, repeat, phase, host in each[each["phase"] != SESSION].itertuples(index=False):
        row = {"trial": str(trial), "repeat": repeat, "phases": {}, "host": {}}
        own = found.setdefault(str(trial), row)
        own["phases"][str(phase)] = own["host"][str(host)] = None
    table = pd.DataFrame(
        [
            {**row, "phases": ", ".join(row["phases"]), "host": ", ".join(row["host"])}
            for row in found.values()
        ],
        columns=["trial", "repeat", "phases", "host"],
    )
    return table.astype({"repeat": rows["repeat"].dtype})


def _with_volume(samples: pd.DataFrame, parts: Sequence[Part]) -> pd.DataFrame:
    """The samples with the level of the factor `volume`, where trials have it."""
    levels = {p.trial: (p.conditions.get("factors") or {}).get("volume") for p in parts}
    if all(level is None for level in levels.values()):
        return samples
    trial = samples["trial"].astype("category")
    level = pd.Series([levels.get(str(name)) for name in trial.cat.categories], dtype=float)
    return samples.assign(volume=level.to_numpy().take(trial.cat.codes.to_numpy()))


def _by_trial(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables as one, each trial's rows together, lest their order tell which were read together."""
    if not any(map(len, tables[1:])):
        return tables[0]
    return joined(tables).sort_values("trial", kind="stable", ignore_index=True)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """The table with text instead of categories, which differ between lots of trials."""
    names = [n for n in table if isinstance(table[n].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(names, str))
