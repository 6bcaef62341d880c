"""Analysis of variance of a study's results: which factors explain its rates and times.

One table per phase, step and measure, an observation per trial. Rates and times are positive and
their errors multiply, so their logarithms are taken. Factors of numbers count as levels: a straight
line over workers or threads is hardly ever true. Engines without a store (`null`, `files`) are left
out, for they would explain most of everything. A factor that only some engines have (nodes of
servers, settings of one engine) is not crossed with the engine, so that engines with different
factors get tables of their own (column `engines`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.frames import grouped
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.judged import Judged
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.anova import Interactions
from storewise.analysis.stats.anova_groups import (
    ALPHA,
    Ask,
    Found,
    Group,
    adjusted,
    levels_in_words,
    one_group,
    pair_columns,
)
from storewise.analysis.stats.tukey import tukey
from storewise.errors import AnalysisError
from storewise.yamlfile import nearest

#: Rates that a load and any other phase is judged by.
LOAD_RATES = ("documents_per_s", "insert_documents_per_s")
OTHER_RATES = ("operations_per_s",)
#: Percentiles of the service time.
TIMES = ("p50", "p99")
#: Factors up to which all interactions are asked for, beyond it pairs only.
FULL = 3
COLUMNS = (
    "phase",
    "step",
    "measure",
    "engines",
    "term",
    "df",
    "sum_sq",
    "f",
    "p",
    "eta_sq_partial",
    "omega_sq",
    "log",
    "n",
    "left_out",
    "normality_p",
    "equal_variance_p",
)
PAIR_COLUMNS = (
    "phase",
    "step",
    "measure",
    "engines",
    "factor",
    "a",
    "b",
    "difference",
    "low",
    "high",
    "p_adj",
    "reject",
    "ratio",
    "ratio_low",
    "ratio_high",
    "log",
)
_KEYS = ["phase", "step", "measure"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a study is analysed; the defaults are those of its judged tables."""

    response: str | None = None
    factors: tuple[str, ...] = ()
    """All that vary where none are named."""
    numeric: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    log: bool | None = None
    """None: wherever all values are positive."""
    typ: int = 2
    interactions: Interactions = "auto"
    robust: bool = False
    tukey: str | None = None
    phase: str | None = None


def responses(tables: Tables) -> pd.DataFrame:
    """What can be explained, an observation per trial: trial, phase, step, measure, value, rate.

    Measures are those of `throughput` and `storage`, and OPERATION_service_time_PERCENTILE of
    `latency` in s. Steps of searches are left out, for they differ between repeats; so are the
    rates (`rate`) of steps that had a target, which the study has set.
    """
    times = tables.latency[tables.latency["time"] == "service"]
    times = times.assign(
        measure=times["operation"].astype(str) + "_service_time_" + times["percentile"].astype(str)
    )
    frames = [
        tables.throughput.assign(rate=tables.throughput["unit"].astype(str).str.endswith("/s")),
        times.assign(rate=False),
        tables.storage.assign(rate=False),
    ]
    columns = ["trial", *_KEYS, "value", "rate"]
    filled = [frame[columns] for frame in frames if len(frame)]
    if not filled:
        return pd.DataFrame(columns=columns)
    found = pd.concat(filled, ignore_index=True)
    found = found[~found["phase"].isin(set(tables.searches["phase"]))]
    rated = tables.steps.loc[tables.steps["rate"].notna(), ["phase", "step"]].drop_duplicates()
    if rated.empty:
        return found
    told = found.merge(rated, on=["phase", "step"], how="left", indicator=True)
    return found[~(found["rate"] & (told["_merge"] == "both").to_numpy())]


def study_analyses(tables: Tables, wanted: Wanted) -> Found:
    """The analyses of variance of a study; AnalysisError for names that it does not have."""
    factors = list(tables.results.factors)
    for option, names in (
        ("--factors", wanted.factors),
        ("--by", wanted.by),
        ("--tukey", [wanted.tukey] if wanted.tukey else []),
    ):
        for name in names:
            if name not in factors:
                raise AnalysisError(
                    f"{option}: the study has no factor {name!r}{nearest(name, factors)}; its "
                    f"factors are {', '.join(factors)}"
                )
            if option == "--by" and name in wanted.factors:
                raise AnalysisError(f"factor {name!r} is in --factors and in --by")
    for name in wanted.numeric:
        if name not in (wanted.factors or factors):
            raise AnalysisError(f"--numeric: {name!r} is none of the factors")
        if not pd.api.types.is_numeric_dtype(tables.trials[name]):
            raise AnalysisError(f"--numeric: the levels of {name!r} are no numbers")
    rows = _asked_rows(tables, wanted)
    if rows.empty or "engine" not in tables.trials:
        return Found((), ())
    trials = tables.trials[["trial", *factors]]
    trials = trials[~trials["engine"].isin([CEILING, BASELINE])]
    joined = rows.merge(trials, on="trial", how="inner")
    groups: list[Group] = []
    not_possible: list[tuple[str, str]] = []
    order = {name: place for place, name in enumerate(tables.phases_of(rows))}
    keyed = sorted(grouped(joined, _KEYS), key=lambda item: order[str(item[0][0])])
    for (phase, step, measure), part in keyed:
        named = {"phase": str(phase), "step": int(step), "measure": str(measure)}
        for by, frame in _comparable(part, factors, wanted.by):
            by = {**named, **by}
            words = levels_in_words(by)
            try:
                groups.append(_analysed(frame, by, factors, wanted))
            except AnalysisError as error:
                not_possible.append((words, str(error).removeprefix(f"{words}: ")))
    return Found(groups, not_possible)


def _asked_rows(tables: Tables, wanted: Wanted) -> pd.DataFrame:
    found = responses(tables)
    phases = tables.phases_of(found)
    if wanted.phase is not None:
        if wanted.phase not in phases:
            raise AnalysisError(
                f"--phase: there is no phase {wanted.phase!r}{nearest(wanted.phase, phases)}; "
                f"phases with results are {', '.join(phases)}"
            )
        found = found[found["phase"] == wanted.phase]
    if wanted.response is None:
        loads = set(found.loc[found["measure"] == LOAD_RATES[1], "phase"])
        times = tuple(f"_service_time_{p}" for p in TIMES)
        found = found[~found["measure"].astype(str).str.startswith(f"{FINISH}_")]
        load = found["phase"].isin(loads)
        mine = (
            (load & found["measure"].isin(LOAD_RATES))
            | (~load & found["measure"].isin(OTHER_RATES))
            | found["measure"].astype(str).str.endswith(times)
        )
        return found[mine]
    measures = sorted(set(map(str, found["measure"])))
    chosen = [m for m in measures if m == wanted.response or m.endswith(f"_time_{wanted.response}")]
    if not chosen:
        raise AnalysisError(
            f"--response: there is no measure {wanted.response!r}"
            f"{nearest(wanted.response, measures)}; measures are {', '.join(measures)}"
        )
    return found[found["measure"].isin(chosen)]


def _comparable(
    rows: pd.DataFrame, factors: Sequence[str], by: Sequence[str]
) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Rows whose engines have the same factors, and the same levels of `by`."""
    has = rows[list(factors)].notna()
    for _, part in rows.groupby([has[name] for name in factors], sort=False):
        engines: dict[str, object] = {
            "engines": ", ".join(sorted(map(str, part["engine"].unique())))
        }
        if not by:
            yield engines, part
            continue
        for levels, one in grouped(part, by):
            yield {**engines, **dict(zip(by, levels, strict=True))}, one


def _analysed(
    rows: pd.DataFrame, by: dict[str, object], factors: Sequence[str], wanted: Wanted
) -> Group:
    varying = [f for f in factors if rows[f].nunique() > 1]
    chosen = [f for f in wanted.factors if f in varying] if wanted.factors else varying
    if not chosen:
        raise AnalysisError("no factor has two levels with results")
    cells = rows.groupby(chosen, observed=True).ngroups
    if len(rows) == cells:
        raise AnalysisError("no levels were repeated (`repeats: 2` or more in the study)")
    log = wanted.log if wanted.log is not None else bool((rows["value"] > 0).all())
    ask = Ask(
        str(by["measure"]),
        tuple(chosen),
        tuple(f for f in wanted.numeric if f in chosen),
        log,
        1,
        wanted.typ,
        wanted.interactions,
        wanted.robust,
        wanted.tukey if wanted.tukey in chosen else None,
        FULL if len(chosen) <= FULL else 2,
    )
    group = one_group(rows.rename(columns={"value": ask.response}), by, ask)
    others = [f for f in varying if f not in chosen and f not in wanted.by]
    note = (
        f"{', '.join(others)} vary, too, and what they explain is in the residual" if others else ""
    )
    return replace(group, note=note)


def variance(tables: Tables) -> Judged:
    """Table `variance` of a study: COLUMNS, one row per term, the residual included; `tukey`."""
    found = study_analyses(tables, Wanted())
    rows = [
        {
            **group.by,
            "term": row.term,
            "df": row.df,
            "sum_sq": row.sum_sq,
            "f": row.f,
            "p": row.p,
            "eta_sq_partial": row.eta_sq_partial,
            "omega_sq": row.omega_sq,
            "log": group.ask.log,
            "n": group.found.n,
            "left_out": ", ".join(term for term, _ in group.found.left_out),
            "normality_p": group.found.normality.p,
            "equal_variance_p": group.found.equal_variance.p,
        }
        for group in found.groups
        for row in group.found.rows
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    numbers = ["f", "p", "eta_sq_partial", "omega_sq", "normality_p", "equal_variance_p"]
    return Judged(
        table.astype(dict.fromkeys(numbers, float)),
        list(_warnings(found.groups)),
        {"tukey": _tukey_pairs(found.groups)},
    )


def _tukey_pairs(groups: Sequence[Group]) -> pd.DataFrame:
    """Table `tukey` of a study: PAIR_COLUMNS, each pair of engines in each rate."""
    rates = {*LOAD_RATES, *OTHER_RATES}
    chosen = [
        replace(group, ask=replace(group.ask, tukey="engine"))
        for group in groups
        if group.by["measure"] in rates and "engine" in group.ask.factors
    ]
    rows = [
        {**group.by, **pair_columns(group, pair), "log": group.ask.log}
        for group in chosen
        for pair in tukey(group.found.model, "engine")
    ]
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))


def _warnings(groups: Sequence[Group]) -> Iterable[StudyWarning]:
    """One warning per kind of check that fails, whatever the number of tables: p values are
    adjusted for their number, as `storewise analyse` does."""
    kinds = (
        (
            "residuals_not_normal",
            "residuals are not normal",
            [g.found.normality.p for g in groups],
            "look at the extreme repeats; give more repeats",
        ),
        (
            "unequal_variance",
            "residuals do not spread alike",
            [g.found.equal_variance.p for g in groups],
            "`storewise analyse RESULTS --robust` takes the covariance HC3",
        ),
    )
    for code, what, values, remedy in kinds:
        tested = [(g, p) for g, p in zip(groups, values, strict=True) if p is not None]
        if not tested:
            continue
        names = [
            f"{g.ask.response} of phase {g.by['phase']}"
            for g, p in zip(groups, adjusted(values), strict=True)
            if p is not None and p < ALPHA
        ]
        if names:
            named = ", ".join(dict.fromkeys(names[:3]))
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield StudyWarning(
                code,
                "",
                f"analysis of variance of {named}{more} ({len(names)} of {len(tested)} tables): "
                f"{what}, so that its F and p are doubtful",
                remedy,
            )
    left_out = {term for group in groups for term, _ in group.found.left_out}
    if left_out:
        yield StudyWarning(
            "interaction_left_out",
            "",
            f"analysis of variance without {', '.join(sorted(left_out))} in some tables: trials "
            "are missing for these levels together, or too few for it",
            "measure the missing trials, or give more repeats",
        )
