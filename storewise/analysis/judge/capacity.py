"""How many nodes and hours the full corpus needs, and what that rests on.

The rate of a load at another number of nodes (of worker hosts for embedded stores) is that of the
Universal Scalability Law where the study had enough levels to fit it (judge `usl`), else each node
is taken to add what it added at the largest number measured, which leaves contention and coherency
out and is called optimistic. Nothing is said beyond the law's peak. A load of N documents takes
N / rate: the rate is taken to stay what it was over what was loaded. An interval of a rate whose
ends differ by a factor of `UNKNOWN` or more says nothing of hours or nodes, and is not passed on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, embedded, external
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import all_of, number
from storewise.analysis.judge.capacity_model import LINEAR, MEASURED, MOST, USL, Model, model_of
from storewise.analysis.judge.corpus import (
    VOLUME,
    FullSize,
    copies,
    corpus_disk,
    full_size,
    load_phases,
)
from storewise.analysis.measure.latency_intervals import key_of
from storewise.analysis.model.judged import Judged
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import Estimate, Resampled, weaker

#: Hours in which the corpus is to be loaded: a day, so that a failed load can be repeated.
TARGET_HOURS = 24.0
HOUR = 3600.0
#: Largest number of nodes, as a multiple of the largest measured, that is not called extrapolated.
#: The law's coherency grows with the square: at 4 times the nodes it is 16 times what was seen.
FAR = 4.0
#: Factor between the ends of an interval from which on they are not known: minutes or days.
UNKNOWN = 100.0
NODES, WORKERS = "nodes", "workers"
COLUMNS = (
    "phase",
    "step",
    "over",
    "documents",
    "multiple",
    "count",
    "documents_per_s",
    "hours",
    "hours_low",
    "hours_high",
    "resampled",
    "bytes",
    "bytes_low",
    "bytes_high",
    "bytes_per_count",
    "model",
    "target_hours",
    "needed",
    "needed_low",
    "needed_high",
    "needed_hours",
    "needed_bytes_per_count",
    "peak",
    "extrapolated",
    "limits",
)
CURVE = (
    "phase",
    "step",
    "over",
    "count",
    "how",
    "documents_per_s",
    "low",
    "high",
    "hours",
    "hours_low",
    "hours_high",
    "resampled",
    "bytes_per_count",
    "extrapolated",
)


@dataclass(frozen=True, slots=True)
class _Study:
    """What every row is made of, taken from the tables once."""

    tables: Tables
    full: FullSize
    disk: list[dict[str, Any]]
    trials: list[dict[str, Any]]
    by_levels: dict[tuple[str, ...], dict[tuple[Any, ...], list[str]]] = field(default_factory=dict)
    """Trials by their levels of some factors, as far as they were asked for."""

    def of(self, setting: Mapping[str, Any]) -> list[str]:
        """The trials of a setting, whatever their count and volume."""
        names = tuple(n for n in setting if n not in ("phase", "step"))
        if names not in self.by_levels:
            found = self.by_levels[names] = {}
            for row in self.trials:
                found.setdefault(key_of(row, names), []).append(str(row["trial"]))
        return self.by_levels[names].get(key_of(setting, names), [])


def capacity(tables: Tables) -> Judged:
    """The table `capacity`: one row per levels of all factors but the count, phase and step."""
    factors = list(tables.results.factors)
    rows = [row for row, _ in _all(tables, factors)]
    return Judged(pd.DataFrame(rows, columns=[*factors, *COLUMNS]))


def capacity_curve(tables: Tables) -> Judged:
    """The table `capacity_curve`: each measured count, and those of the model up to the needed."""
    factors = list(tables.results.factors)
    rows = [row for _, curve in _all(tables, factors) for row in curve]
    return Judged(pd.DataFrame(rows, columns=[*factors, *CURVE]))


def _all(tables: Tables, factors: list[str]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    full = full_size(tables) if "engine" in factors else None
    if full is None:
        return []
    rates = tables.summary
    rates = rates[
        rates["phase"].isin(load_phases(rates))
        & (rates["measure"] == "documents_per_s")
        & (rates["engine"] != CEILING)
        & (rates["mean"] > 0)
    ]
    study = _Study(tables, full, records(corpus_disk(tables, full)), records(tables.trials))
    found = []
    for (engine,), mine in grouped(rates, ["engine"]):
        over = _over(str(engine), factors)
        others = [f for f in factors if f not in (over, VOLUME)]
        for levels, group in grouped(mine, [*others, "phase", "step"]):
            setting = dict(zip([*others, "phase", "step"], levels, strict=True))
            group, volume = _largest_volume(group)
            if over:
                group = group[group[over].notna()].sort_values(over)
            if len(group):
                found.append(_one(study, setting, group, over, volume))
    return found


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


def _one(
    study: _Study,
    setting: Mapping[str, Any],
    group: pd.DataFrame,
    over: str,
    volume: str,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    tables, full = study.tables, study.full
    counts = group[over].astype(float).to_list() if over else [math.nan]
    rates = [_estimate(row) for row in records(group)][: len(counts)]
    fitted = _fitted(tables, setting, over, group) if over else None
    model = model_of(counts, rates, fitted) if over else Model(MEASURED, rates[0], math.nan, most=0)
    best = max(range(len(counts)), key=lambda i: rates[i].mean)
    size = _size(study.disk, setting, over, counts[best])
    per_count = size["mean"] / copies(setting)
    target = full.documents / (TARGET_HOURS * HOUR)
    relative = _relative(model.base)
    needed = model.needed(target) if over else math.nan
    ends = [model.needed(target / end) if over and end > 0 else math.nan for end in relative]
    place = {f: setting.get(f) for f in (*tables.results.factors, "phase", "step")}
    if VOLUME in place:
        place[VOLUME] = group[VOLUME].iloc[0]
    used = [rates[best], model.base] if over else [rates[best]]
    beyond = needed > FAR * counts[-1] if over else False
    row = {
        **place,
        "over": over,
        "documents": full.documents,
        "multiple": full.multiple,
        "count": counts[best],
        "documents_per_s": rates[best].mean,
        **_hours(full.documents, rates[best].mean, _relative(rates[best])),
        "resampled": weaker(*(_basis(one) for one in used)),
        "bytes": size["mean"],
        "bytes_low": size["low"],
        "bytes_high": size["high"],
        "bytes_per_count": per_count / counts[best],
        "model": model.kind,
        "target_hours": TARGET_HOURS,
        "needed": needed,
        "needed_low": ends[1],
        "needed_high": ends[0],
        "needed_hours": full.documents / model.rate(needed) / HOUR if needed > 0 else math.nan,
        "needed_bytes_per_count": per_count / needed,
        "peak": float(model.most) if model.kind == USL and model.most < MOST else math.nan,
        "extrapolated": bool(beyond),
        "limits": "; ".join(
            [*_limits(study, model, setting, group, over, volume), *_not_known(used, over)]
        ),
    }
    curve = []
    for count in _counts(counts, needed, model) if over else []:
        measured = count in counts
        estimate = rates[counts.index(count)] if measured else None
        rate = estimate.mean if estimate else model.rate(count)
        basis = estimate or model.base
        spread = _relative(basis)
        curve.append(
            {
                **place,
                "over": over,
                "count": count,
                "how": MEASURED if measured else model.kind,
                "documents_per_s": rate,
                "low": rate * spread[0],
                "high": rate * spread[1],
                **_hours(full.documents, rate, spread),
                "resampled": _basis(basis),
                "bytes_per_count": per_count / count,
                "extrapolated": count > FAR * counts[-1],
            }
        )
    return row, curve


def _estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(
        int(row["n"]),
        float(row["mean"]),
        float(row["low"]),
        float(row["high"]),
        row["resampled"],
        float(row["error"]),
        float(row["freedom"]),
    )


def _wide(found: Estimate) -> bool:
    """Whether an interval is too wide to say anything."""
    return found.known() and not (found.low > 0 and found.high < UNKNOWN * found.low)


def _basis(found: Estimate) -> Resampled:
    """What the interval of hours and nodes rests on that is made of this one."""
    return "none" if _wide(found) else found.resampled


def _relative(found: Estimate) -> tuple[float, float]:
    """The ends of an interval as multiples of the mean; nan where they are not known."""
    known = _basis(found) != "none"
    return (found.low / found.mean, found.high / found.mean) if known else (math.nan,) * 2


def _not_known(used: Sequence[Estimate], over: str) -> list[str]:
    """That an interval was too wide, in words."""
    wide = [one for one in used if _wide(one)]
    if not wide:
        return []
    n = wide[0].n
    return [
        f"how far hours{f' and {over}' if over else ''} may be off is not known: the interval of "
        f"the rate ({n} repeat{'' if n == 1 else 's'}) spans a factor of {UNKNOWN:g} or more"
    ]


def _hours(documents: float, rate: float, relative: tuple[float, float]) -> dict[str, float]:
    hours = documents / rate / HOUR
    return {
        "hours": hours,
        "hours_low": hours / relative[1],
        "hours_high": hours / relative[0],
    }


def _counts(counts: Sequence[float], needed: float, model: Model) -> list[float]:
    """The counts of a curve: those measured, powers of two up to the needed, and the needed."""
    found = set(counts)
    if model.kind != MEASURED:
        end = min(model.most, max(FAR * counts[-1], needed if needed > 0 else 0.0))
        powers = (2.0**i for i in range(int(math.log2(max(end, 1.0))) + 1))
        # A line from the largest count on says nothing of fewer than were measured.
        found |= {n for n in powers if n > counts[0] or model.kind == USL}
        found |= {needed} if needed > 0 else {float(model.most)} if model.most < MOST else set()
    return sorted(found)


def _fitted(
    tables: Tables, setting: Mapping[str, Any], over: str, group: pd.DataFrame
) -> tuple[float, float, float] | None:
    """lambda, sigma, kappa of the law for this setting; None where there is no fit."""
    usl = tables.judged.get("usl")
    if usl is None or usl.empty:
        return None
    rows = usl[
        (usl["factor"] == over) & (usl["measure"] == "documents_per_s") & (usl["reason"] == "")
    ]
    wanted = dict(setting)
    if VOLUME in group:
        wanted[VOLUME] = group[VOLUME].iloc[0]
    for row in records(rows):
        if all(_equal(row[name], value) for name, value in wanted.items()):
            found = float(row["lambda"]), float(row["sigma"]), float(row["kappa"])
            return found if all(map(math.isfinite, found)) else None
    return None


def _size(
    disk: list[dict[str, Any]], setting: Mapping[str, Any], over: str, count: float
) -> dict[str, float]:
    """What the corpus takes on disk at this setting, B; nan where the store told no size."""
    for row in disk:
        same = all(_equal(row[name], value) for name, value in setting.items())
        if same and (not over or _equal(row[over], count)):
            return {name: float(row[name]) for name in ("mean", "low", "high")}
    return dict.fromkeys(("mean", "low", "high"), math.nan)


def _equal(one: Any, other: Any) -> bool:
    return (missing(one) and missing(other)) or (
        not missing(one) and not missing(other) and bool(one == other)
    )


def _limits(
    study: _Study,
    model: Model,
    setting: Mapping[str, Any],
    group: pd.DataFrame,
    over: str,
    volume: str,
) -> list[str]:
    """What the row assumes, in words."""
    tables, full, trials = study.tables, study.full, study.of(setting)
    said = [
        volume
        or f"the rate is taken to stay the same over {number(full.multiple)} times what was loaded"
    ]
    what = "worker" if over == WORKERS else "node"
    if not over:
        said.append("the hosts of this database are not known, so none are counted")
    elif model.kind == USL:
        law = f"Universal Scalability Law with sigma {model.law[1]:.3g}, kappa {model.law[2]:.3g}"
        said.append(
            f"{law}, highest at {model.most:g} {what}s" if model.most < MOST else f"{law}, no peak"
        )
    elif model.kind == LINEAR:
        said.append(
            f"each {what} is taken to add what it did at {model.largest:g}: optimistic, for "
            "contention and coherency are left out"
        )
    else:
        said.append(f"more {what}s did not load faster than chance, so no other number is given")
    if full.by == "files":
        said.append("documents of the corpus by its number of files")
    said += _bounds(tables, trials, str(setting["phase"]))
    if over and (group[over] > 1).any() and _one_host(tables, trials, over):
        said.append(f"all {what}s shared one host; on hosts of their own they may do more")
    return said


def _one_host(tables: Tables, trials: list[str], over: str) -> bool:
    """Whether some trial had several servers, or workers, on a single host."""
    if over == WORKERS:
        mine = tables.trials[tables.trials["trial"].isin(trials)]
        mine = mine[mine[WORKERS] > 1]
        return bool((~mine["host"].astype(str).str.contains(", ")).any())
    hosts = tables.nodes[tables.nodes["trial"].isin(trials)].groupby("trial")["host"]
    return bool(((hosts.size() > 1) & (hosts.nunique() == 1)).any())


def _bounds(tables: Tables, trials: list[str], phase: str) -> list[str]:
    """What limited these loads, by the judge of limits."""
    found = tables.judged.get("limits")
    if found is None or found.empty:
        return []
    mine = found[found["trial"].isin(trials) & (found["phase"] == phase)]
    kinds = mine["limited_by"].value_counts()
    if kinds.empty:
        return []
    words = [f"{kind} ({count} of {len(mine)})" for kind, count in kinds.items()]
    return [f"limited by: {all_of(words)}"]
