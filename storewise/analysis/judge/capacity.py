"""How many nodes and hours the full corpus needs, and what that rests on.

The rate of a load at another number of nodes (of worker hosts for embedded stores) is that of the
Universal Scalability Law where the study had enough levels to fit it (judge `usl`), else each node
is taken to add what it added at the largest number measured, which leaves contention and coherency
out and is called optimistic. Nothing is said beyond the law's peak. A load of N documents takes
N / rate: the rate is taken to stay what it was over what was loaded. An interval of a rate whose
ends differ by a factor of `UNKNOWN` or more says nothing of hours or nodes, and is not passed on.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, embedded, external, replica_factor
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import all_of, number
from storewise.analysis.judge.comparable_steps import LOAD_RATE, loads
from storewise.analysis.judge.corpus import VOLUME, FullSize, corpus_disk, full_size
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import Estimate, ratio, weaker
from storewise.analysis.stats.usl import law

#: Hours in which the corpus is to be loaded: a day, so that a failed load can be repeated.
TARGET_HOURS = 24.0
HOUR = 3600.0
#: Largest number of nodes, as a multiple of the largest measured, that is not called extrapolated.
#: The law's coherency grows with the square: at 4 times the nodes it is 16 times what was seen.
FAR = 4.0
#: Factor between the ends of an interval from which on they are not known: minutes or days.
UNKNOWN = 100.0
NODES, WORKERS = "nodes", "workers"
#: More than any cluster has; the search for a number ends here.
MOST = 10**6

USL, LINEAR, MEASURED = "usl", "linear", "measured"
COLUMNS = (
    *("phase", "step", "over", "documents", "multiple", "count", "documents_per_s"),
    *("hours", "hours_low", "hours_high", "resampled"),
    *("bytes", "bytes_low", "bytes_high", "bytes_per_count"),
    *("model", "target_hours", "needed", "needed_low", "needed_high"),
    *("needed_hours", "needed_bytes_per_count", "peak", "extrapolated", "limits"),
)
CURVE = (
    *("phase", "step", "over", "count", "how", "documents_per_s", "low", "high"),
    *("hours", "hours_low", "hours_high", "resampled", "bytes_per_count", "extrapolated"),
)


@dataclass(frozen=True, slots=True)
class Model:
    """Documents/s over a count of nodes or workers.

    `kind` is USL (then `law` holds lambda, sigma, kappa), LINEAR (`each` documents/s per node) or
    MEASURED (only the counts that were measured). `base` is the mean at the largest measured count,
    whose interval, relative to it, is taken for all. `most` is the largest count that it speaks of.
    """

    kind: str
    base: Estimate
    largest: float
    each: float = math.nan
    law: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    most: float = MOST

    def rate(self, count: float) -> float:
        """Documents/s at a count; nan beyond `most`."""
        if count > self.most:
            return math.nan
        if self.kind == USL:
            return float(law(count, *self.law))
        if self.kind == LINEAR:
            return self.each * count
        return self.base.mean if count == self.largest else math.nan

    def needed(self, rate: float) -> float:
        """The smallest whole count with at least this rate; nan where there is none."""
        if self.kind == MEASURED:
            return self.largest if self.base.mean >= rate else math.nan
        # The rate rises up to `most`, so that halving finds the smallest that is enough.
        counts = range(1, int(min(self.most, MOST)) + 1)
        place = bisect.bisect_left(counts, rate, key=self.rate)
        return float(counts[place]) if place < len(counts) else math.nan


def model_of(
    counts: Sequence[float],
    rates: Sequence[Estimate],
    fitted: tuple[float, float, float] | None = None,
) -> Model:
    """The model of mean rates at rising counts.

    `fitted` is lambda, sigma and kappa of the law, None where it could not be fitted. Without it a
    straight line is used where there is one count, or where the rate at the largest is above that
    at the smallest by more than chance (by their means, where there is no interval).
    """
    top, base = counts[-1], rates[-1]
    if fitted is not None:
        _, sigma, kappa = fitted
        peak = math.sqrt(max(0.0, 1 - sigma) / kappa) if kappa > 0 else math.inf
        most = max(1.0, math.floor(peak)) if math.isfinite(peak) else MOST
        return Model(USL, base, top, law=fitted, most=most)
    if len(counts) > 1:
        grown = ratio(base, rates[0])
        if not (grown.low > 1 if grown.known() else grown.mean > 1):
            best = max(range(len(counts)), key=lambda i: rates[i].mean)
            return Model(MEASURED, rates[best], counts[best], most=counts[-1])
    return Model(LINEAR, base, top, each=base.mean / top)


@dataclass(frozen=True, slots=True)
class _Load:
    """Loads of one setting over the counts of what an engine grows by (`over`; empty: not known),
    whose rates are the rows of `rates`. `volume` says in words what larger volumes changed."""

    tables: Tables
    full: FullSize
    setting: Mapping[str, Any]
    over: str
    rates: pd.DataFrame
    volume: str

    @property
    def what(self) -> str:
        """One of what it grows by."""
        return "worker" if self.over == WORKERS else "node"

    def trials(self) -> pd.DataFrame:
        """The trials of the setting, whatever their count and volume."""
        levels = {n: v for n, v in self.setting.items() if n not in ("phase", "step")}
        return _rows_at(self.tables.trials, levels)


def capacity(tables: Tables) -> Judged:
    """The tables `capacity`, one row per levels of all factors but the count, phase and step, and
    `capacity_curve`, with each measured count and those of the model up to the needed."""
    factors = list(tables.results.factors)
    full = full_size(tables) if "engine" in factors else None
    rows, curves = [], []
    if full is not None:
        disk = corpus_disk(tables, full)
        for load in _loads(tables, full, factors):
            row, curve = _capacity(load, disk)
            rows.append(row)
            curves += curve
    table = pd.DataFrame(rows, columns=[*factors, *COLUMNS])
    return Judged(
        table, beside={"capacity_curve": pd.DataFrame(curves, columns=[*factors, *CURVE])}
    )


def _loads(tables: Tables, full: FullSize, factors: Sequence[str]) -> Iterable[_Load]:
    rates = tables.rates
    rates = rates[
        rates["phase"].isin(loads(rates))
        & (rates["measure"] == LOAD_RATE)
        & (rates["engine"] != CEILING)
        & (rates["mean"] > 0)
    ]
    for (engine,), of_engine in grouped(rates, ["engine"]):
        over = _over(str(engine), factors)
        keys = [*(f for f in factors if f not in (over, VOLUME)), "phase", "step"]
        for levels, group in grouped(of_engine, keys):
            group, volume = _largest_volume(group)
            if over:
                group = group[group[over].notna()].sort_values(over)
            if len(group):
                setting = dict(zip(keys, levels, strict=True))
                yield _Load(tables, full, setting, over, group, volume)


def _over(engine: str, factors: Sequence[str]) -> str:
    """What an engine grows by; empty where that is not known."""
    if external(engine):
        return ""
    name = WORKERS if embedded(engine) else NODES
    return name if name in factors else ""


def _largest_volume(group: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of the largest volume, and how the rates of the smallest compare, in words."""
    if VOLUME not in group or group[VOLUME].isna().all():
        return group, ""
    least, most = float(group[VOLUME].min()), float(group[VOLUME].max())
    large, small = group[group[VOLUME] == most], group[group[VOLUME] == least]
    if least == most:
        return large, ""
    change = float(large["mean"].mean()) / float(small["mean"].mean()) - 1
    return large, (
        f"at volume {most:g} the rate was {change:+.0%} of that at volume {least:g} and is taken "
        "to change no further"
    )


def _capacity(load: _Load, disk: pd.DataFrame) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A row of `capacity`, and those of its curve."""
    full, over, group = load.full, load.over, load.rates
    place = {f: load.setting.get(f) for f in (*load.tables.results.factors, "phase", "step")}
    if VOLUME in place:
        place[VOLUME] = group[VOLUME].iloc[0]
    rates = [as_estimate(row) for row in records(group)]
    if over:
        counts = group[over].astype(float).to_list()
        model = model_of(counts, rates, _fitted(load, place))
    else:
        counts, rates = [math.nan], rates[:1]
        model = Model(MEASURED, rates[0], math.nan, most=0)
    best = max(range(len(counts)), key=lambda i: rates[i].mean)
    size = _size(disk, load, counts[best])
    per_count = size["bytes"] / replica_factor(load.setting)
    target = full.documents / (TARGET_HOURS * HOUR)
    needed = model.needed(target) if over else math.nan
    ends = [
        model.needed(target / end) if over and end > 0 else math.nan
        for end in _relative(model.base)
    ]
    used = [rates[best], model.base] if over else [rates[best]]
    farthest = FAR * counts[-1]
    row = {
        **place,
        "over": over,
        "documents": full.documents,
        "multiple": full.multiple,
        "count": counts[best],
        "documents_per_s": rates[best].mean,
        **_hours(full.documents, rates[best].mean, rates[best]),
        "resampled": weaker(*("none" if _wide(one) else one.resampled for one in used)),
        **size,
        "bytes_per_count": per_count / counts[best],
        "model": model.kind,
        "target_hours": TARGET_HOURS,
        "needed": needed,
        "needed_low": ends[1],
        "needed_high": ends[0],
        "needed_hours": full.documents / model.rate(needed) / HOUR if needed > 0 else math.nan,
        "needed_bytes_per_count": per_count / needed,
        "peak": float(model.most) if model.kind == USL and model.most < MOST else math.nan,
        "extrapolated": needed > farthest,
        "limits": "; ".join(_limits(load, model, used)),
    }
    curve = []
    measured = dict(zip(counts, rates, strict=True))
    for count in _counts(counts, needed, model) if over else []:
        estimate = measured.get(count, model.base)
        rate = estimate.mean if count in measured else model.rate(count)
        low, high = _relative(estimate)
        curve.append(
            {
                **place,
                "over": over,
                "count": count,
                "how": MEASURED if count in measured else model.kind,
                "documents_per_s": rate,
                "low": rate * low,
                "high": rate * high,
                **_hours(full.documents, rate, estimate),
                "resampled": "none" if _wide(estimate) else estimate.resampled,
                "bytes_per_count": per_count / count,
                "extrapolated": count > farthest,
            }
        )
    return row, curve


def _wide(rate: Estimate) -> bool:
    """Whether an interval is too wide to say anything."""
    return rate.known() and not (rate.low > 0 and rate.high < UNKNOWN * rate.low)


def _relative(rate: Estimate) -> tuple[float, float]:
    """The ends of an interval as multiples of the mean; nan where they are not known."""
    if _wide(rate):
        return math.nan, math.nan
    return rate.low / rate.mean, rate.high / rate.mean


def _hours(documents: float, rate: float, basis: Estimate) -> dict[str, float]:
    """The hours of a load, with an interval as wide as that of `basis`."""
    hours = documents / rate / HOUR
    low, high = _relative(basis)
    return {"hours": hours, "hours_low": hours / high, "hours_high": hours / low}


def _counts(counts: Sequence[float], needed: float, model: Model) -> list[float]:
    """The counts of a curve: those measured, powers of two up to the needed, and the needed."""
    chosen = set(counts)
    if model.kind != MEASURED:
        end = min(model.most, max(FAR * counts[-1], needed if needed > 0 else 0.0))
        powers = (2.0**i for i in range(int(math.log2(max(end, 1.0))) + 1))
        # A line from the largest count on says nothing of fewer than were measured.
        chosen |= {n for n in powers if n > counts[0] or model.kind == USL}
        chosen |= {needed} if needed > 0 else {float(model.most)} if model.most < MOST else set()
    return sorted(chosen)


def _fitted(load: _Load, place: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """lambda, sigma, kappa of the law for this setting; None where there is no fit."""
    usl = load.tables.judged.get("usl")
    if usl is None or usl.empty:
        return None
    levels = {name: level for name, level in place.items() if name != load.over}
    curve = {"factor": load.over, "measure": LOAD_RATE, "reason": ""}
    for row in records(_rows_at(usl, {**levels, **curve})):
        values = float(row["lambda"]), float(row["sigma"]), float(row["kappa"])
        return values if all(map(math.isfinite, values)) else None
    return None


def _size(disk: pd.DataFrame, load: _Load, count: float) -> dict[str, float]:
    """What the corpus takes on disk at this setting, B; nan where the store gave no size."""
    levels = {**load.setting, **({load.over: count} if load.over else {})}
    row = next(iter(records(_rows_at(disk, levels))), {})
    columns = {"bytes": "mean", "bytes_low": "low", "bytes_high": "high"}
    return {name: float(row.get(column, math.nan)) for name, column in columns.items()}


def _rows_at(table: pd.DataFrame, levels: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with these cells; a missing one is equal to a missing one."""
    same = pd.Series(True, index=table.index)
    for name, level in levels.items():
        same &= table[name].isna() if missing(level) else table[name] == level
    return table[same]


def _limits(load: _Load, model: Model, used: Sequence[Estimate]) -> list[str]:
    """What the row assumes, in words."""
    tables, full, over, what = load.tables, load.full, load.over, load.what
    trials = load.trials()
    texts = [
        load.volume
        or f"the rate is taken to stay the same over {number(full.multiple)} times what was loaded"
    ]
    if not over:
        texts.append("the hosts of this database are not known, so none are counted")
    elif model.kind == USL:
        peak = f"highest at {model.most:g} {what}s" if model.most < MOST else "no peak"
        texts.append(
            f"Universal Scalability Law with sigma {model.law[1]:.3g}, kappa {model.law[2]:.3g}, "
            f"{peak}"
        )
    elif model.kind == LINEAR:
        texts.append(
            f"each {what} is taken to add what it did at {model.largest:g}: optimistic, for "
            "contention and coherency are left out"
        )
    else:
        texts.append(f"more {what}s did not load faster than chance, so no other number is given")
    if full.by == "files":
        texts.append("documents of the corpus by its number of files")
    texts += _bounds(tables, trials["trial"], str(load.setting["phase"]))
    if over and (load.rates[over] > 1).any() and _one_host(tables, trials, over):
        texts.append(f"all {what}s shared one host; on hosts of their own they may do more")
    for n in [rate.n for rate in used if _wide(rate)][:1]:
        texts.append(
            f"how far hours{f' and {over}' if over else ''} may be off is not known: the interval "
            f"of the rate ({n} repeat{'' if n == 1 else 's'}) spans a factor of {UNKNOWN:g} or more"
        )
    return texts


def _one_host(tables: Tables, trials: pd.DataFrame, over: str) -> bool:
    """Whether some trial had several servers, or workers, on a single host."""
    if over == WORKERS:
        several = trials[trials[WORKERS] > 1]
        return bool((~several["host"].astype(str).str.contains(", ")).any())
    hosts = tables.nodes[tables.nodes["trial"].isin(trials["trial"])].groupby("trial")["host"]
    return bool(((hosts.size() > 1) & (hosts.nunique() == 1)).any())


def _bounds(tables: Tables, trials: pd.Series, phase: str) -> list[str]:
    """What limited these loads, by the judge of limits."""
    limits = tables.judged.get("limits")
    if limits is None or limits.empty:
        return []
    of_loads = limits[limits["trial"].isin(trials) & (limits["phase"] == phase)]
    kinds = of_loads["limited_by"].value_counts()
    words = [f"{kind} ({count} of {len(of_loads)})" for kind, count in kinds.items()]
    return [f"limited by: {all_of(words)}"] if words else []
