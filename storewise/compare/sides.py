"""One side of a comparison: its figures over repeats, by setting, phase, step and measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import level
from storewise.analysis.judge.comparable_steps import (
    LOAD_RATE,
    OTHER_RATE,
    at_steps,
    loads,
    named_times,
    of_rates,
)
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.measure.steps import step_parameters
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.columns import OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import Estimate, estimate, pooled
from storewise.errors import ResultError
from storewise.yamlfile import nearest

RATE, TIME, SIZE = "rate", "time", "size"
#: Percentiles of service times, and of response times where a rate was set: in a closed loop both
#: are the same.
PERCENTILES = ("p50", "p99")
SIZES = ("bytes_per_document", "node_bytes", "inodes")
_KEYS = ["phase", "step", "measure"]
_COLUMNS = ["trial", *_KEYS, "value", "unit", "kind", "part"]


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one study.

    Each row of `figures` has the factors' levels (None where a trial does not have the factor),
    phase, step (in words), measure, kind, unit, part, and `estimate`. `failed` are the factors and
    the reason of each trial that failed for good.
    """

    factors: tuple[str, ...]
    figures: Sequence[Mapping[str, Any]]
    failed: Sequence[tuple[Mapping[str, Any], str]]

    def failure(self, setting: Mapping[str, Any]) -> str:
        """Why a trial of this setting failed; empty where none did."""
        for factors, reason in self.failed:
            if all(_plain(factors.get(name)) == value for name, value in setting.items()):
                return reason
        return ""

    def levels(self, factor: str) -> list[Any]:
        """The levels of a factor in the figures, in order; empty where the study has it not."""
        if factor not in self.factors:
            return []
        levels = {row[factor] for row in self.figures}
        return sorted(levels, key=lambda one: (one is None, isinstance(one, str), one))


def side_of(tables: Tables, at: Mapping[str, str]) -> Side:
    """The figures of a study, of trials that have the levels `at` only.

    Raises ResultError where the study does not have such a factor or level.
    """
    results = tables.results
    every = list(results.factors)
    _check_levels(tables.trials, at, every, str(results.directory))
    values = measurements(tables)
    joined = values.merge(tables.trials[["trial", *every]], on="trial", how="inner")
    figures: list[dict[str, Any]] = []
    for keys, alike in grouped(joined, _KEYS):
        settings = [
            (dict(zip([*every, "phase"], map(_plain, levels), strict=True)), group)
            for levels, group in grouped(alike, [*every, "phase"])
        ]
        # Settings at other levels have their part in the spread that all share.
        means = _means([group for _, group in settings])
        for (levels, group), mean in zip(settings, means, strict=True):
            if not _has(levels, at):
                continue
            several = {n: group[n].nunique() > 1 for n in ("unit", "part")}
            figures.append(
                {
                    **levels,
                    **dict(zip(_KEYS, keys, strict=True)),
                    "kind": group["kind"].iloc[0],
                    **{n: "several" if several[n] else group[n].iloc[0] for n in several},
                    "estimate": mean,
                }
            )
    order = {name: place for place, name in enumerate(tables.phases_of(values))}
    figures.sort(key=lambda row: order[str(row["phase"])])
    failed = [(one.factors, one.reason) for one in results.failed if _has(one.factors, at)]
    return Side(tuple(name for name in every if name not in at), figures, failed)


def _has(levels: Mapping[str, Any], at: Mapping[str, str]) -> bool:
    return all(_word(levels.get(name)) == wanted for name, wanted in at.items())


def _plain(value: Any) -> Any:
    """A level as both sides have it: whole numbers are integers, whatever a column made of them."""
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_levels(
    trials: pd.DataFrame, at: Mapping[str, str], factors: Sequence[str], where: str
) -> None:
    for name, wanted in at.items():
        if name not in factors:
            if wanted == "":
                continue
            raise ResultError(
                f"--by: {where} has no factor {name!r}{nearest(name, list(factors))}; its factors "
                f"are {', '.join(factors)}"
            )
        levels = sorted({_word(one) for one in trials[name]})
        if wanted not in levels:
            raise ResultError(
                f"--by: factor {name} of {where} has no level {wanted!r}"
                f"{nearest(wanted, levels)}; measured were {', '.join(filter(None, levels))}"
            )


def _word(value: Any) -> str:
    return "" if missing(value) else level(_plain(value))


def _means(groups: Sequence[pd.DataFrame]) -> list[Estimate]:
    """The mean of each setting; few repeats share the spread of all settings of the figure."""
    values = [group["value"].astype(float).to_list() for group in groups]
    kinds = [group["kind"].iloc[0] for group in groups]
    shared = pooled([v if k != SIZE else [] for v, k in zip(values, kinds, strict=True)])
    return [
        mean or estimate(v, counted=kind == SIZE)
        for mean, v, kind in zip(shared, values, kinds, strict=True)
    ]


def measurements(tables: Tables) -> pd.DataFrame:
    """One row per trial, phase, step and measure: value, unit, kind (RATE, TIME, SIZE), part.

    `step` is its parameters in words, empty for the only step of a phase. Of searches only their
    answer is a figure (`highest_rate`): their steps differ between repeats. Rates that the study
    set are none either.
    """
    throughput, times = tables.throughput, tables.latency
    names = _step_names(tables)
    paced = {key for key, (_, rate) in names.items() if rate}
    rates = throughput[of_rates(throughput, loads(throughput))].assign(kind=RATE)
    rates = rates[~at_steps(rates, paced, STEP)]
    times = named_times(times, PERCENTILES).assign(kind=TIME, part="")
    response = (times["time"] == "response") & at_steps(times, paced, STEP)
    times = times[(times["time"] == "service") | response]
    sizes = tables.storage[tables.storage["measure"].isin(SIZES)].assign(kind=SIZE, part="")
    searches = records(tables.searches)
    searched = {
        (str(row["trial"]), str(row["phase"]), int(row["first_step"]) + n)
        for row in searches
        for n in range(int(row["steps"]))
    }
    answers = tables.searches.assign(
        step=[_search_name(row) for row in searches],
        measure="highest_rate",
        value=tables.searches["rate"].astype(float),
        unit="operations/s",
        kind=RATE,
        part="",
    )
    answers = answers.loc[answers["value"].notna(), _COLUMNS]
    frames = []
    for frame in (rates, times, sizes):
        frame = frame[~at_steps(frame, searched, STEP)]
        keys = frame[STEP].itertuples(index=False, name=None)
        steps = [names.get(key, ("", False))[0] for key in keys]
        frames.append(frame.assign(step=steps)[_COLUMNS])
    every = pd.concat([frame.astype(object) for frame in (*frames, answers)], ignore_index=True)
    # What stores nothing says how fast clients are: it has no calls or data that could be timed.
    trials = tables.trials
    ceiling = set(trials.loc[trials["engine"] == CEILING, "trial"]) if "engine" in trials else ()
    of_clients = every["measure"].isin((LOAD_RATE, OTHER_RATE))
    every = every[~every["trial"].isin(ceiling) | of_clients]
    return every.astype({name: str for name in _COLUMNS if name != "value"} | {"value": float})


def _step_names(tables: Tables) -> dict[StepKey, tuple[str, bool]]:
    """Of steps with parameters these in words, and whether a rate was among them."""
    names: dict[StepKey, tuple[str, bool]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for row in records(step_parameters(tables.results.parts)):
        words = [f"{n} {level(row[n])}" for n in PARAMETERS if not missing(row[n])]
        words += [str(row[OTHER])] if row[OTHER] else []
        name = ", ".join(words)
        trial, phase = str(row["trial"]), str(row["phase"])
        count = seen[trial, phase, name] = seen.get((trial, phase, name), 0) + 1
        if count > 1:
            name += f" (again, {count})"
        names[trial, phase, int(row["step"])] = (name, not missing(row["rate"]))
    return names


def _search_name(row: Mapping[str, Any]) -> str:
    return (
        f"clients {level(row['clients'])}, p{level(row['percentile'])} of {row['time']} time up to "
        f"{level(row['limit_ms'])} ms"
    )
