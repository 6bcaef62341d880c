"""Derived figures of trials: efficiency, the highest rate of a search, when loading pays.
The rows are as in `measures`, so that means over repeats are computed as for all figures.

*Efficiency* at level n of a resource is the rate there over that of the same round at the lowest
level m, over n / m (Jain, *The Art of Computer Systems Performance Analysis*, 1991).

*Loading pays* from N questions on: a store costs its load once and then a time per question; the
engine ``files`` costs no load and more time per question. With L the time of the store's load
(parsing, inserting, the final flush, the building of its indexes, and before all that the start of
its servers), F the time that a question takes by reading the files and S that of the store,

    N = L / (F - S)

questions of one kind, asked one after the other; never where F <= S. F is the mean of the fastest
``files`` configuration with the same clients. With C clients at once in a closed loop, F and S are
the mean times of a question over C: so long do C clients take for each of their questions, as L is
the time of all loading clients together. L grows with the corpus. F does, too, where a question
reads all files: N is then about the same for any corpus. A look-up reads one file however many
there are: N grows as the corpus does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side
from storewise.analysis.common.frames import joined
from storewise.analysis.model.columns import (
    ALL,
    EFFICIENCY,
    HIGHEST,
    LOAD_MEASURES,
    OTHER,
    PAYS_FROM,
    QUESTION_TIME,
    SETUP,
)
from storewise.analysis.model.results import Results

#: Numeric factors that are no resource: more of them is not expected to raise the rate.
NO_RESOURCES = frozenset({"volume", "replicas"})

#: Measures for the time of a load, including the start of servers.
_LOAD = ("documents", "duration", SETUP)


def numeric_factors(table: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Factors with at least two levels that are all positive numbers."""
    return [
        name
        for name in factors
        if pd.api.types.is_numeric_dtype(table[name])
        and not pd.api.types.is_bool_dtype(table[name])
        and table[name].nunique() > 1
        and (table[name].dropna() > 0).all()
    ]


def efficiencies(measures: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The efficiency of each phase's rate at each level but the lowest of each numeric factor."""
    factors = list(results.factors)
    rates = measures[(measures["operation"] == ALL) & measures["rate"].isna()]
    loading = set(rates.loc[rates["measure"].isin(LOAD_MEASURES), "phase"])
    of_load = rates["phase"].isin(loading)
    judged_by = np.where(of_load, "documents_per_s", "operations_per_s")
    rates = rates[rates["measure"] == judged_by]
    rates = rates.merge(results.trials[["trial", "repeat", *factors]], on="trial")
    frames = []
    for factor in numeric_factors(rates, [f for f in factors if f not in NO_RESOURCES]):
        known = rates[rates[factor].notna() & (rates["value"] > 0)].astype({factor: float})
        keys = [*(f for f in factors if f != factor), "phase", "step"]
        base = known.groupby(keys, dropna=False, observed=True)[factor].transform("min")
        lowest = known[known[factor] == base].rename(columns={"value": "lowest"})
        lowest = lowest[[*keys, "repeat", "lowest"]].drop_duplicates([*keys, "repeat"])
        higher = known.assign(base=base)[known[factor] > base]
        rows: pd.DataFrame = higher.merge(lowest, on=[*keys, "repeat"])
        value = rows["value"] / rows["lowest"] / (rows[factor] / rows["base"])
        levels = zip(rows[factor], rows["base"], strict=True)
        words = [f"{factor} {level:g} against {base:g}" for level, base in levels]
        rows = rows.assign(measure=EFFICIENCY, value=value, unit="1", **{OTHER: words})
        frames.append(rows[list(measures)])
    return joined([measures.iloc[:0], *frames])


def highest_rates(measures: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The highest rates that searches found, with their limit in OTHER; a trial whose search found
    none has no row."""
    rows = [
        {
            "trial": part.trial,
            "phase": part.phase,
            "value": search["rate"],
            "clients": float(part.conditions["steps"][search["first_step"]]["clients"]),
            OTHER: f"p{search['percentile']:g} of {search['time']} time "
            f"within {search['limit_ms']:g} ms",
        }
        for part in results.parts
        if part.worker == 0
        for search in part.conditions.get("searches") or ()
        if search["rate"] is not None
    ]
    table = pd.DataFrame(rows).assign(step=0, operation=ALL, measure=HIGHEST, unit="operations/s")
    return table.reindex(columns=list(measures))


def pays(measures: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The number of questions from which on loading pays (inf: never). Empty if the study lacks
    the engine ``files``."""
    if BASELINE not in set(results.trials.get("engine", ())):
        return measures.iloc[:0]
    factors = list(results.factors)
    trials = results.trials[["trial", *factors]]
    rows = measures[measures["measure"] == QUESTION_TIME].merge(trials, on="trial")
    alike = [*(f for f in client_side(factors) if f not in ("index", "engine"))]
    alike += ["phase", "step", "operation"]
    files = rows[rows["engine"] == BASELINE].assign(log=np.log(rows["value"]))
    means = files.groupby([*dict.fromkeys([*factors, *alike])], dropna=False, observed=True)["log"]
    fastest = means.mean().groupby(alike, dropna=False, observed=True).min()
    stores = rows[~rows["engine"].isin([BASELINE, CEILING])]
    both = stores.merge(fastest.map(np.exp).rename("files").reset_index(), on=alike)
    both = both.merge(_load_times(measures), on="trial")
    gain = both["files"] - both["value"]
    count = (both["load"] / gain).where(gain > 0, np.inf)
    both = both.assign(measure=PAYS_FROM, value=count, unit="questions")
    return both.reindex(columns=list(measures))


def _load_times(measures: pd.DataFrame) -> pd.DataFrame:
    """The time of each trial's load and of the start of its servers, in s: trial, load."""
    whole = measures[measures["operation"] == ALL].set_index(["trial", "phase", "step"])
    of = {name: whole.loc[whole["measure"] == name, "value"] for name in _LOAD}
    loads = of["duration"][of["duration"].index.isin(of["documents"].index)].reset_index()
    start = loads["trial"].map(of[SETUP].droplevel(["phase", "step"])).fillna(0)
    return pd.DataFrame({"trial": loads["trial"], "load": loads["value"] + start})


def times_asked(value: float) -> str:
    """A number of questions in words: whole, at least one."""
    return f"{max(1, int(np.ceil(value - 1e-9))):,}" if np.isfinite(value) else "never"
