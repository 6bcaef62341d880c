"""Analysis of variance of a study's results: which factors explain its rates and times.

One table per phase, step and measure, an observation per trial. Rates and times are positive and
their errors multiply, so their logarithms are taken. Factors of numbers count as levels: a straight
line over workers or threads is hardly ever true. Engines without a store (`null`, `files`) are left
out, for they would explain most of everything. A factor that only some engines have (nodes of
servers, settings of one engine) is not crossed with the engine, so that engines with different
factors get tables of their own (column `engines`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.frames import grouped
from storewise.analysis.judge.comparable_steps import (
    LOAD_RATES,
    OTHER_RATE,
    at_steps,
    loads,
    of_rates,
    set_rates,
)
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import ALL, RATES, SIZES
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.anova import COLUMNS as TERM_COLUMNS
from storewise.analysis.stats.anova import Specification
from storewise.analysis.stats.anova_groups import (
    PAIR_COLUMNS,
    Analyses,
    Group,
    levels_in_words,
    one_group,
    pair_table,
)
from storewise.analysis.stats.tukey import tukey
from storewise.errors import AnalysisError
from storewise.yamlfile import nearest

#: Percentiles of the service time.
TIMES = ("p50", "p99")
#: Up to so many factors the model has all interactions, beyond it only pairs.
MAX_FULL_FACTORS = 3
_KEYS = ["phase", "step", "measure"]
_OF = (*_KEYS, "engines")
COLUMNS = (*_OF, *TERM_COLUMNS, "log", "n", "left_out", "normality_p", "equal_variance_p")
PAIRS = (*_OF, *PAIR_COLUMNS, "log")


#: The analysis of the stored tables: all rates and times over all factors that vary.
ALL_FIGURES = Specification("", (), log=None)


def responses(tables: Tables) -> pd.DataFrame:
    """The possible responses, an observation per trial: trial, phase, step, measure, value, rate.

    Measures are those of `throughput` and `storage`, and OPERATION_service_time_PERCENTILE of
    `latency` in s. Steps of searches are left out because they differ between repeats, and so are
    rates (`rate`) of steps with a target rate, because the study has set them.
    """
    rows = tables.measures.astype({"operation": str, "measure": str})
    rows = rows[~rows["phase"].isin(tables.searched)]
    whole = (rows["operation"] == ALL) & rows["measure"].isin([*RATES, *SIZES])
    times = (rows["operation"] != ALL) & rows["measure"].str.startswith("service_")
    names = rows["operation"] + "_" + rows["measure"].str.replace("service_", "service_time_")
    rate = rows["unit"].astype(str).str.endswith("/s")
    rows = rows.assign(measure=rows["measure"].where(whole, names), rate=rate)
    kept = (whole | times) & ~(rate & at_steps(rows, set_rates(tables)))
    return rows.loc[kept, ["trial", *_KEYS, "value", "rate"]]


def study_analyses(
    tables: Tables,
    spec: Specification = ALL_FIGURES,
    *,
    by: Sequence[str] = (),
    phase: str | None = None,
) -> Analyses:
    """The analyses of variance of a study; AnalysisError for unknown names.

    If `spec` has no response, all rates and times are analysed; if it has no factors, all that
    vary are used. There is a table for each level of `by`, and only for `phase` if it is given.
    """
    factors = list(tables.results.factors)
    tukeys = [spec.tukey] if spec.tukey else []
    for option, names in (("--factors", spec.factors), ("--by", by), ("--tukey", tukeys)):
        for name in names:
            if name not in factors:
                raise AnalysisError(
                    f"{option}: the study has no factor {name!r}{nearest(name, factors)}; its "
                    f"factors are {', '.join(factors)}"
                )
    for name in set(by) & set(spec.factors):
        raise AnalysisError(f"factor {name!r} is in --factors and in --by")
    for name in spec.numeric:
        if name not in (spec.factors or factors):
            raise AnalysisError(f"--numeric: {name!r} is not one of the factors")
        if not pd.api.types.is_numeric_dtype(tables.trials[name]):
            raise AnalysisError(f"--numeric: the levels of {name!r} are not numbers")
    rows = _selected_rows(tables, spec.response, phase)
    if rows.empty or "engine" not in tables.trials:
        return Analyses(())
    trials = tables.trials[["trial", *factors]]
    trials = trials[~trials["engine"].isin([CEILING, BASELINE])]
    joined = rows.merge(trials, on="trial", how="inner")
    groups: list[Group] = []
    not_possible: list[tuple[str, str]] = []
    order = {name: place for place, name in enumerate(tables.phases_of(rows))}
    keyed = sorted(grouped(joined, _KEYS), key=lambda item: order[str(item[0][0])])
    for (phase, step, measure), part in keyed:
        named = {"phase": str(phase), "step": int(step), "measure": str(measure)}
        for levels, frame in _comparable(part, factors, by):
            place = {**named, **levels}
            try:
                groups.append(_analysed(frame, place, [f for f in factors if f not in by], spec))
            except AnalysisError as error:
                not_possible.append((levels_in_words(place), str(error)))
    return Analyses(groups, not_possible)


def _selected_rows(tables: Tables, response: str, phase: str | None) -> pd.DataFrame:
    rows = responses(tables)
    phases = tables.phases_of(rows)
    if phase is not None:
        if phase not in phases:
            raise AnalysisError(
                f"--phase: there is no phase {phase!r}{nearest(phase, phases)}; phases with "
                f"results are {', '.join(phases)}"
            )
        rows = rows[rows["phase"] == phase]
    names = rows["measure"].astype(str)
    if not response:
        times = tuple(f"_service_time_{p}" for p in TIMES)
        rates = of_rates(rows, loads(rows))
        return rows[(rates | names.str.endswith(times)) & ~names.str.startswith(f"{FINISH}_")]
    measures = sorted(set(names))
    chosen = [m for m in measures if m == response or m.endswith(f"_time_{response}")]
    if not chosen:
        raise AnalysisError(
            f"--response: there is no measure {response!r}{nearest(response, measures)}; measures "
            f"are {', '.join(measures)}"
        )
    return rows[rows["measure"].isin(chosen)]


def _comparable(
    rows: pd.DataFrame, factors: Sequence[str], by: Sequence[str]
) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Groups of rows whose engines have the same factors and the same levels of `by`."""
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
    rows: pd.DataFrame, by: Mapping[str, object], factors: Sequence[str], asked: Specification
) -> Group:
    varying = [f for f in factors if rows[f].nunique() > 1]
    chosen = [f for f in asked.factors if f in varying] if asked.factors else varying
    if not chosen:
        raise AnalysisError("no factor has two levels with results")
    cells = rows.groupby(chosen, observed=True).ngroups
    if len(rows) == cells:
        raise AnalysisError("no levels were repeated (`repeats: 2` or more in the study)")
    spec = replace(
        asked,
        response=str(by["measure"]),
        factors=tuple(chosen),
        numeric=tuple(f for f in asked.numeric if f in chosen),
        log=asked.log if asked.log is not None else bool((rows["value"] > 0).all()),
        order=asked.order or (None if len(chosen) <= MAX_FULL_FACTORS else 2),
        tukey=asked.tukey if asked.tukey in chosen else None,
    )
    group = one_group(rows.rename(columns={"value": spec.response}), by, spec)
    others = ", ".join(f for f in varying if f not in chosen)
    note = f"{others} vary, too; their effects are in the residual" if others else ""
    return replace(group, note=note)


def variance(tables: Tables) -> Judged:
    """Table `variance` of a study: COLUMNS, one row per term, the residual included; `pairs`."""
    groups = study_analyses(tables).groups
    found = [
        group.variance.table.assign(
            **group.by,
            log=group.spec.log,
            n=group.variance.n,
            left_out=", ".join(group.variance.left_out),
            normality_p=group.variance.normality,
            equal_variance_p=group.variance.equal_variance,
        )
        for group in groups
    ]
    return Judged(_stacked(found, COLUMNS), beside={"pairs": _pairs(groups)})


def _stacked(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns))
    return table[list(columns)]


def _pairs(groups: Sequence[Group]) -> pd.DataFrame:
    """Table `pairs` of a study (PAIRS): each pair of engines for each rate."""
    chosen = [
        replace(
            group,
            spec=replace(group.spec, tukey="engine"),
            pairs=tukey(group.variance, "engine"),
        )
        for group in groups
        if group.by["measure"] in (*LOAD_RATES, OTHER_RATE) and "engine" in group.spec.factors
    ]
    found = [pair_table(group).assign(**group.by, log=group.spec.log) for group in chosen]
    return _stacked(found, PAIRS)
