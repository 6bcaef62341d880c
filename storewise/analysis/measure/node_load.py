"""What servers and their hosts were busy with in each phase, and how documents lay on them.

A node samples from its start to its end, in seconds of its own. Here each sample is given to the
steps of the trial's phases by Unix time, in proportion where it lies in two: all figures of a
second are taken to hold for all of it. The clock of a node's host is brought to that of the
session by the offset that the node measured, unless clients ran on the same host and so had the
same clock. What lies in no step (forming, pauses, verification, closing) stays phase "session".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.common.frames import grouped, numbered, rows_of
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.host_load import (
    BRIEF,
    HOST_METRICS,
    PER_SECOND,
    by_second,
    per_second,
)
from storewise.analysis.measure.throughput import STEP

#: Metrics of a server's own processes and directory; the others are its host's.
NODE_METRICS = {"store_cpu": "cores", "store_rss": "B", "store_bytes": "B"}
_PLACE = [*STEP, "host", "node", "second"]
COLUMNS = [*_PLACE, "metric", "value", "unit", "length"]
_TEXTS = ("trial", "phase", "host", "node", "metric", "unit")
#: Of clients, from which it is known when each step ran.
_OF_SPANS = ("started_at", "duration")

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Span:
    phase: str
    step: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a node (`place`: trial, host, node) sampled in a step: places of rows, and seconds of
    each that lie in the step."""

    place: tuple[str, str, str]
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
    own = samples[(samples["phase"] == SESSION) & samples["node"].notna()].reset_index(drop=True)
    clients = samples[samples["worker"].notna() & samples["metric"].isin(_OF_SPANS)]
    of_trial = {
        str(trial): (_spans(rows), set(rows["host"].astype(str)))
        for (trial,), rows in grouped(clients, ["trial"])
    }
    second = own["second"].to_numpy(dtype=float)
    value = own["value"].to_numpy(dtype=float)
    metric = own["metric"].astype(str).to_numpy()
    length = np.ones(len(own))
    pieces: list[_Piece] = []
    for (trial, node), rows in grouped(own[["trial", "node", "host"]], ["trial", "node"]):
        mine = rows.index.to_numpy()
        told = mine[np.isnan(second[mine])]
        single = dict(zip(metric[told][::-1], value[told][::-1], strict=True))
        mine = mine[~np.isnan(second[mine])]
        if not len(mine) or "started_at" not in single:
            continue
        known = mine[metric[mine] == "sample_length"]
        lengths = dict(zip(second[known], value[known], strict=True))
        length[mine] = [lengths.get(at, 1.0) for at in second[mine]]
        host = str(rows["host"].loc[mine[0]])
        spans, client_hosts = of_trial.get(str(trial), ([], set()))
        zero = single["started_at"]
        if host not in client_hosts:
            zero -= single.get("clock_offset", 0.0)
        place = (str(trial), host, str(node))
        pieces += _spread(place, mine, zero + second[mine], length[mine], spans)
    if not pieces:
        return pd.DataFrame(columns=COLUMNS)
    rows_of_all = np.concatenate([piece.rows for piece in pieces])
    sizes = [len(piece.rows) for piece in pieces]
    # A mean over its second, so that it can be weighted like the shares of the host's time.
    cpu = metric == "store_cpu"
    value = np.where(cpu, value / length, value)
    unit = np.where(cpu, NODE_METRICS["store_cpu"], own["unit"].astype(str).to_numpy())
    texts = {
        "trial": [piece.place[0] for piece in pieces],
        "phase": [piece.phase for piece in pieces],
        "host": [piece.place[1] for piece in pieces],
        "node": [piece.place[2] for piece in pieces],
    }
    table = pd.DataFrame({n: pd.Categorical(v).repeat(sizes) for n, v in texts.items()})
    table["step"] = np.repeat([piece.step for piece in pieces], sizes)
    table["second"] = np.concatenate([second[one.rows] - second[one.rows].min() for one in pieces])
    table["metric"] = pd.Categorical(metric[rows_of_all])
    table["value"] = value[rows_of_all]
    table["unit"] = pd.Categorical(unit[rows_of_all])
    table["length"] = np.concatenate([piece.lengths for piece in pieces])
    return table[COLUMNS]


def _spread(
    place: tuple[str, str, str],
    rows: Integers,
    start: Floats,
    length: Floats,
    spans: Sequence[_Span],
) -> list[_Piece]:
    """Samples given to the spans that they lie in, what lies in none to the session."""
    left = length.copy()
    pieces = []
    for span in spans:
        end = np.minimum(start + length, span.end)
        inside = np.clip(end - np.maximum(start, span.start), 0.0, None)
        left -= inside
        pieces.append(_piece(place, span.phase, span.step, rows, inside))
    # A sample that a step touches is the step's; only the others are of the session as such.
    alone = np.where(left > length - 1e-6, left, 0.0)
    pieces.append(_piece(place, SESSION, 0, rows, alone))
    return [piece for piece in pieces if len(piece.rows)]


def _piece(
    place: tuple[str, str, str], phase: str, step: int, rows: Integers, inside: Floats
) -> _Piece:
    keep = inside > 1e-6
    if (inside >= BRIEF).any():
        keep = inside >= BRIEF
    return _Piece(place, phase, step, rows[keep], inside[keep])


def _spans(clients: pd.DataFrame) -> list[_Span]:
    """When each step ran, from the first worker's start to the last one's end, in Unix time."""
    keys = ["phase", "step", "worker"]
    starts = clients[clients["metric"] == "started_at"]
    lasted = clients[(clients["metric"] == "duration") & clients["operation"].isna()]
    columns = {
        "start": starts.groupby(keys, observed=True)["value"].min(),
        "lasted": lasted.groupby(keys, observed=True)["value"].max(),
    }
    both = pd.DataFrame(columns).dropna().reset_index()
    return [
        _Span(
            str(phase),
            int(step),
            float(group["start"].min()),
            float((group["start"] + group["lasted"]).max()),
        )
        for (phase, step), group in grouped(both, ["phase", "step"])
    ]


def node_load(taken: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, node and metric, and of the nodes' hosts.

    `taken` is `node_samples`, `of_clients` is `host.host_load`: a host that had clients too was
    sampled by these in their phases, which is not told twice. Rows of a host have no node.
    """
    columns = list(of_clients.columns)
    if taken.empty:
        return pd.DataFrame(columns=columns)
    rows = taken[taken["metric"].isin([*NODE_METRICS, *HOST_METRICS])]
    keys = [*STEP, "host", "node", "metric"]
    groups = numbered(rows, keys)
    length = rows["length"].to_numpy(dtype=float)
    table = rows[[*keys, "unit"]].iloc[groups.first].astype(dict.fromkeys(_TEXTS, str))
    table["mean"] = groups.sums(rows["value"].to_numpy(dtype=float) * length) / groups.sums(length)
    table["max"] = groups.highest(rows["value"])
    known = _places(of_clients[of_clients["metric"] == "cpu_user"])
    own = table["metric"].isin(NODE_METRICS).to_numpy()
    at = table[[*STEP, "host"]].itertuples(index=False, name=None)
    keep = own | np.array([place not in known for place in at], dtype=bool)
    table["node"] = table["node"].where(own, "")
    found: pd.DataFrame = table[keep].reset_index(drop=True)
    return found[columns]


def node_cpu(taken: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """What hosts that had nodes only did each second; `of_clients` is `host.cpu_series`."""
    known = _places(of_clients)
    rows = taken[taken["metric"].isin(PER_SECOND) & (taken["phase"] != SESSION)]
    columns = list(of_clients.columns)
    if rows.empty:
        return pd.DataFrame(columns=columns)
    wide = by_second(per_second(rows))
    keep = [(r.trial, r.phase, r.step, r.host) not in known for r in rows_of(wide)]
    return wide.loc[keep]


def _places(table: pd.DataFrame) -> set[tuple[Any, ...]]:
    places = numbered(table, [*STEP, "host"]).first
    return set(table[[*STEP, "host"]].iloc[places].itertuples(index=False, name=None))


def balance(samples: pd.DataFrame) -> pd.DataFrame:
    """How the operations of each step spread over the nodes (or stores) that own the documents.

    Columns: trial, phase, step, operation, node, operations, errors, share (of all operations of
    the step whose owner is known).
    """
    rows = samples[samples["metric"].isin(["owner_operations", "owner_errors"])]
    names = ["operations", "errors", "share"]
    keys = [*STEP, "operation", "node"]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, *names])
    rows = rows.astype({"metric": str, "trial": str, "phase": str, "operation": str, "node": str})
    table = rows.pivot_table(
        index=keys, columns="metric", values="value", aggfunc="sum", fill_value=0.0
    )
    table = table.rename(columns={f"owner_{name}": name for name in names}).reset_index()
    table = table.reindex(columns=[*keys, "operations", "errors"]).fillna({"errors": 0.0})
    total = table.groupby(keys[:-1])["operations"].transform("sum")
    table["share"] = table["operations"] / total.where(total > 0)
    table.columns.name = None
    return table[[*keys, *names]]
