"""What servers and their hosts were busy with in each phase, and how documents lay on them.

A node samples from its start to its end, in seconds of its own. Here each sample is given to the
steps of the trial's phases by Unix time, in proportion where it lies in two: all figures of a
second are taken to hold for all of it. The clock of a node's host is brought to that of the
session by the offset that the node measured, unless clients ran on the same host and so had the
same clock. What lies in no step (forming, pauses, verification, closing) stays phase "session".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import Floats, Integers, grouped, grouped_rows
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.host_load import BRIEF, HOST_METRICS, by_second, weighted
from storewise.analysis.measure.throughput import STEP

#: Metrics of a server's own processes and directory; the others are its host's.
NODE_METRICS = {"store_cpu": "cores", "store_rss": "B", "store_bytes": "B"}
COLUMNS = [*STEP, "host", "node", "second", "metric", "value", "unit", "length"]


class _Span(NamedTuple):
    """When a step ran, in Unix time."""

    phase: str
    step: int
    start: float
    end: float


class _Piece(NamedTuple):
    """What a node sampled in a step: places of rows, and seconds of each that lie in the step."""

    trial: str
    host: str
    node: str
    phase: str
    step: int
    rows: Integers
    lengths: Floats


def node_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples of nodes by phase and step of their trial.

    `samples` is the long table of results with phase "session". Columns: trial, phase, step, host,
    node, second (from the node's first one in the step), metric, value, unit, length (seconds of
    the sample within the step). ``store_cpu`` is in cores here, not in seconds.
    """
    of_nodes = samples[(samples["phase"] == SESSION) & samples["node"].notna()]
    of_nodes = of_nodes.reset_index(drop=True)
    clients = samples[
        samples["worker"].notna() & samples["metric"].isin(["started_at", "duration"])
    ]
    of_trial = {
        trial: (_spans(rows), set(rows["host"])) for (trial,), rows in grouped(clients, ["trial"])
    }
    second = of_nodes["second"].to_numpy(dtype=float)
    value = of_nodes["value"].to_numpy(dtype=float)
    metric = of_nodes["metric"].astype(str).to_numpy()
    length = np.ones(len(of_nodes))
    pieces: list[_Piece] = []
    for (trial, node), places in grouped_rows(of_nodes, ["trial", "node"]):
        whole = places[np.isnan(second[places])]
        single = dict(zip(metric[whole][::-1], value[whole][::-1], strict=True))
        rows = places[~np.isnan(second[places])]
        if not len(rows) or "started_at" not in single:
            continue
        measured = rows[metric[rows] == "sample_length"]
        lengths = dict(zip(second[measured], value[measured], strict=True))
        length[rows] = [lengths.get(at, 1.0) for at in second[rows]]
        host = of_nodes["host"].iloc[rows[0]]
        spans, client_hosts = of_trial.get(trial, ([], set()))
        zero = single["started_at"]
        if host not in client_hosts:
            zero -= single.get("clock_offset", 0.0)
        pieces += [
            _Piece(trial, host, node, span.phase, span.step, rows[inside > 0], inside[inside > 0])
            for span, inside in _spread(zero + second[rows], length[rows], spans)
        ]
    pieces = [piece for piece in pieces if len(piece.rows)]
    if not pieces:
        return pd.DataFrame(columns=COLUMNS)
    rows = np.concatenate([piece.rows for piece in pieces])
    sizes = [len(piece.rows) for piece in pieces]
    # A mean over its second, so that it can be weighted like the shares of the host's time.
    cpu = metric == "store_cpu"
    value = np.where(cpu, value / length, value)
    unit = np.where(cpu, NODE_METRICS["store_cpu"], of_nodes["unit"].astype(str).to_numpy())
    table = pd.DataFrame(
        {
            name: pd.Categorical([getattr(piece, name) for piece in pieces]).repeat(sizes)
            for name in ("trial", "phase", "host", "node")
        }
    )
    table["step"] = np.repeat([piece.step for piece in pieces], sizes)
    table["second"] = np.concatenate([second[one.rows] - second[one.rows].min() for one in pieces])
    table["metric"] = pd.Categorical(metric[rows])
    table["value"] = value[rows]
    table["unit"] = pd.Categorical(unit[rows])
    table["length"] = np.concatenate([piece.lengths for piece in pieces])
    return table[COLUMNS]


def _spread(
    start: Floats, length: Floats, spans: Sequence[_Span]
) -> Iterator[tuple[_Span, Floats]]:
    """Spans with the seconds of each sample within them, what lies in none as the session."""
    left = length.copy()
    for span in spans:
        end = np.minimum(start + length, span.end)
        inside = np.clip(end - np.maximum(start, span.start), 0.0, None)
        left -= inside
        yield span, _long_enough(inside)
    # A sample that a step touches is the step's; only the others are of the session as such.
    alone = np.where(left > length - 1e-6, left, 0.0)
    yield _Span(SESSION, 0, -np.inf, np.inf), _long_enough(alone)


def _long_enough(inside: Floats) -> Floats:
    """Seconds of samples, 0 for those that are too brief where others are not."""
    least = BRIEF if (inside >= BRIEF).any() else 1e-6
    return np.where(inside >= least, inside, 0.0)


def _spans(clients: pd.DataFrame) -> list[_Span]:
    """When each step ran, from the first worker's start to the last one's end."""
    keys = ["phase", "step", "worker"]
    starts = clients[clients["metric"] == "started_at"]
    lasted = clients[(clients["metric"] == "duration") & clients["operation"].isna()]
    columns = {
        "start": starts.groupby(keys, observed=True)["value"].min(),
        "lasted": lasted.groupby(keys, observed=True)["value"].max(),
    }
    both = pd.DataFrame(columns).dropna().reset_index()
    both["end"] = both["start"] + both["lasted"]
    spans = both.groupby(["phase", "step"], observed=True).agg({"start": "min", "end": "max"})
    return [_Span(*row) for row in spans.reset_index().itertuples(index=False, name=None)]


def node_load(sampled: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, node and metric, and of the nodes' hosts.

    `sampled` is `node_samples`, `of_clients` is `host_load.host_load`: a host that had clients too
    was sampled by these in their phases, which is left out here. Rows of a host have no node.
    """
    if sampled.empty:
        return pd.DataFrame(columns=of_clients.columns)
    rows = sampled[sampled["metric"].isin([*NODE_METRICS, *HOST_METRICS])]
    table = weighted(rows, [*STEP, "host", "node", "metric", "unit"])
    table = table.astype({name: str for name in table if table[name].dtype == "category"})
    of_node = table["metric"].isin(NODE_METRICS)
    table["node"] = table["node"].where(of_node, "")
    apart = _elsewhere(table, of_clients[of_clients["metric"] == "cpu_user"])
    return table.loc[of_node | apart, of_clients.columns].reset_index(drop=True)


def node_cpu(sampled: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """What hosts that had nodes only did each second; `of_clients` is `host_load.by_second`."""
    if sampled.empty:
        return pd.DataFrame(columns=of_clients.columns)
    table = by_second(sampled[sampled["phase"] != SESSION])
    return table[_elsewhere(table, of_clients)]


def _elsewhere(table: pd.DataFrame, of_clients: pd.DataFrame) -> pd.Series:
    """Whether each row is of a trial, phase, step and host that `of_clients` does not have."""
    place = [*STEP, "host"]
    clients = set(of_clients[place].drop_duplicates().itertuples(index=False, name=None))
    places = table[place].itertuples(index=False, name=None)
    return pd.Series([one not in clients for one in places], index=table.index, dtype=bool)


def balance(samples: pd.DataFrame) -> pd.DataFrame:
    """How the operations of each step spread over the nodes (or stores) that own the documents.

    Columns: trial, phase, step, operation, node, operations, errors, share (of all operations of
    the step whose owner is known).
    """
    keys = [*STEP, "operation", "node"]
    rows = samples[samples["metric"].isin(["owner_operations", "owner_errors"])]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, "operations", "errors", "share"])
    rows = rows.astype({"metric": str, "trial": str, "phase": str, "operation": str, "node": str})
    table = rows.pivot_table(
        index=keys, columns="metric", values="value", aggfunc="sum", fill_value=0.0
    )
    table = table.reindex(columns=["owner_operations", "owner_errors"])
    table = table.set_axis(["operations", "errors"], axis=1).reset_index().fillna({"errors": 0.0})
    total = table.groupby(keys[:-1])["operations"].transform("sum")
    return table.assign(share=table["operations"] / total.where(total > 0))
