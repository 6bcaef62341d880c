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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, embedded, external, replica_factor
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import number
from storewise.analysis.judge.comparable_steps import LOAD_RATE, loads
from storewise.analysis.judge.corpus import VOLUME, FullSize, corpus_disk, full_size
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import Estimate, ratio
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
    *("hours", "hours_low", "hours_high"),
    *("bytes", "bytes_low", "bytes_high", "bytes_per_count"),
    *("model", "target_hours", "needed", "needed_low", "needed_high"),
    *("needed_hours", "needed_bytes_per_count", "peak", "extrapolated", "limits"),
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


def capacity(tables: Tables) -> Judged:
    """The table `capacity`: a row per levels of all factors but the count, phase and step."""
    factors = list(tables.results.factors)
    full = full_size(tables) if "engine" in factors else None
    rows = _rows(tables, full, factors) if full is not None else []
    return Judged(pd.DataFrame(rows, columns=[*factors, *COLUMNS]))


def _rows(tables: Tables, full: FullSize, factors: Sequence[str]) -> list[dict[str, Any]]:
    rates = tables.rates
    rates = rates[
        rates["phase"].isin(loads(rates))
        & (rates["measure"] == LOAD_RATE)
        & (rates["engine"] != CEILING)
        & (rates["mean"] > 0)
    ]
    disk = corpus_disk(tables, full)
    rows = []
    for (engine,), of_engine in grouped(rates, ["engine"]):
        over = _over(str(engine), factors)
        keys = [*(f for f in factors if f not in (over, VOLUME)), "phase", "step"]
        for _, group in grouped(of_engine, keys):
            group, volume = _largest_volume(group)
            if over:
                group = group[group[over].notna()].sort_values(over)
            if len(group):
                rows.append(_row(tables, full, disk, over, group, volume))
    return rows


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


def _row(
    tables: Tables, full: FullSize, disk: pd.DataFrame, over: str, group: pd.DataFrame, volume: str
) -> dict[str, Any]:
    """A row of `capacity`, of the rates of one setting over the counts of what it grows by."""
    rates = [as_estimate(row) for row in records(group)]
    counts = group[over].astype(float).to_list() if over else [math.nan] * len(rates)
    best = max(range(len(counts)), key=lambda i: rates[i].mean)
    setting = records(group)[best]
    names = [*tables.results.factors, "phase", "step"]
    place = {name: setting[name] for name in names if name != over}
    model = (
        model_of(counts, rates, _fitted(tables, place, over))
        if over
        else Model(MEASURED, rates[best], math.nan, most=0)
    )
    # A fitted line over volumes has no level of `volume`.
    sizes = _rows_at(disk, {n: setting[n] for n in names if n != VOLUME})
    if VOLUME in sizes:
        sizes = sizes[sizes[VOLUME].isna() | (sizes[VOLUME] == setting[VOLUME])]
    size = next(iter(records(sizes)), {})
    ends = {"bytes": "mean", "bytes_low": "low", "bytes_high": "high"}
    of_size = {name: float(size.get(column, math.nan)) for name, column in ends.items()}
    per_count = of_size["bytes"] / replica_factor(setting)
    target = full.documents / (TARGET_HOURS * HOUR)
    needed, fewest, highest = (
        model.needed(target / share) if over and share > 0 else math.nan
        for share in (1.0, *reversed(_relative(model.base)))
    )
    hours = full.documents / rates[best].mean / HOUR
    low, high = _relative(rates[best])
    used = [rates[best], model.base]
    return {
        **place,
        "over": over,
        "documents": full.documents,
        "multiple": full.multiple,
        "count": counts[best],
        "documents_per_s": rates[best].mean,
        "hours": hours,
        "hours_low": hours / high,
        "hours_high": hours / low,
        **of_size,
        "bytes_per_count": per_count / counts[best],
        "model": model.kind,
        "target_hours": TARGET_HOURS,
        "needed": needed,
        "needed_low": fewest,
        "needed_high": highest,
        "needed_hours": full.documents / model.rate(needed) / HOUR if needed > 0 else math.nan,
        "needed_bytes_per_count": per_count / needed,
        "peak": float(model.most) if model.kind == USL and model.most < MOST else math.nan,
        "extrapolated": needed > FAR * counts[-1],
        "limits": "; ".join(_limits(full, over, volume, model, used)),
    }


def _wide(rate: Estimate) -> bool:
    """Whether an interval is too wide to say anything."""
    return rate.known() and not (rate.low > 0 and rate.high < UNKNOWN * rate.low)


def _relative(rate: Estimate) -> tuple[float, float]:
    """The ends of an interval as multiples of the mean; nan where they are not known."""
    if _wide(rate):
        return math.nan, math.nan
    return rate.low / rate.mean, rate.high / rate.mean


def _fitted(
    tables: Tables, place: Mapping[str, Any], over: str
) -> tuple[float, float, float] | None:
    """lambda, sigma, kappa of the law for this setting; None where there is no fit."""
    usl = tables.judged.get("usl")
    if usl is None or usl.empty:
        return None
    curve = {"factor": over, "measure": LOAD_RATE, "reason": ""}
    for row in records(_rows_at(usl, {**place, **curve})):
        values = float(row["lambda"]), float(row["sigma"]), float(row["kappa"])
        return values if all(map(math.isfinite, values)) else None
    return None


def _rows_at(table: pd.DataFrame, levels: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with these cells; a missing one is equal to a missing one."""
    same = pd.Series(True, index=table.index)
    for name, level in levels.items():
        same &= table[name].isna() if missing(level) else table[name] == level
    return table[same]


def _limits(
    full: FullSize, over: str, volume: str, model: Model, used: Sequence[Estimate]
) -> list[str]:
    """What the row assumes, in words."""
    what = "worker" if over == WORKERS else "node"
    texts = [
        volume
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
    if any(map(_wide, used)):
        texts.append(
            "how far this may be off is not known: the interval of the rate spans a factor of "
            f"{UNKNOWN:g} or more"
        )
    return texts
