"""The input of the decision: the figures of each trial, and the rule of each criterion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, embedded, may_lose, title
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import setting
from storewise.analysis.decision import Conditions
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.judge.corpus import VOLUME
from storewise.analysis.measure.verification import wrong_trials
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criteria import CLIENTS
from storewise.analysis.verdict.criterion import FINISHED, SOURCE_ROW, Criterion
from storewise.study.criteria import BY_KEY, KEYS

#: Columns that tell a measure's setting and what it is of; `round`, `value` and what it was made of
#: follow.
PLACE = ["store", "engine", "deployment", "clients", "volume", "criterion"]
#: Criteria whose figures are counted: without error.
COUNTED = ("disk", "inodes")
#: Seconds from which on a phase is long enough for a rate that is not that of its start.
LONG = 5.0


def no_stores() -> tuple[str, ...]:
    """Engines that are no stores (the files, the ceiling): never recommended."""
    return (title(BASELINE), title(CEILING))


def without_server(tables: Tables) -> set[str]:
    """The stores that need no server: each process that writes has its own."""
    engines = set(map(str, tables.trials.get("engine", ())))
    return {title(name) for name in engines if embedded(name)}


def placed(frame: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """A frame with the factors' columns, and `store`, `deployment` and `clients` (in words) and
    `volume` (a share of all inputs) of each row."""
    trials = tables.trials[tables.trials["engine"] != CEILING].groupby("engine", observed=True)
    factors = [f for f in tables.results.factors if f not in ("engine", VOLUME)]
    varying = [f for f in factors if bool((trials[f].nunique() > 1).any())]
    deployed = [f for f in varying if f not in CLIENTS]
    clients = [f for f in varying if f in CLIENTS]
    rows = records(frame)
    counts = ((setting(row, clients), str(row.get(WITH) or "")) for row in rows)
    return frame.assign(
        store=[title(str(row["engine"])) for row in rows],
        deployment=["" if row["engine"] == BASELINE else setting(row, deployed) for row in rows],
        clients=[", ".join(filter(None, pair)) for pair in counts],
        volume=frame[VOLUME].astype(float).fillna(1.0) if VOLUME in frame else 1.0,
    )


def measures_of(tables: Tables, criteria: Sequence[Criterion]) -> pd.DataFrame:
    """The rows that the decision uses: PLACE, round, value, FINISHED, SOURCE_ROW.

    A round is one repeat of one run: what was added to a study later is of another day. Left out
    are repeats that are not whole (`whole_rounds`), stores with trials that failed by their
    own fault, deployments that are set aside (`set_aside`), and levels of consistency
    that may lose what was acknowledged, of stores that were measured at another one too: they do
    not promise the same, however fast they are.
    """
    columns = [*PLACE, "round", "value", FINISHED, SOURCE_ROW]
    if not criteria:
        return pd.DataFrame(columns=columns)
    rows = pd.concat([one.values.assign(criterion=one.name) for one in criteria])
    rows = placed(rows.merge(tables.trials, on="trial"), tables)
    run_of = {part.trial: part.conditions.get("run") for part in tables.results.parts}
    rounds = zip(rows["trial"], rows["repeat"], strict=True)
    rows["round"] = [f"{run_of.get(trial)} {repeat}" for trial, repeat in rounds]
    whole, _ = whole_rounds(tables)
    rows = rows[(rows["engine"] != CEILING) & rows["repeat"].isin(whole)]
    rows = rows[~rows["store"].isin(list(failed_of(tables)))]
    if "consistency" in rows:
        pairs = zip(rows["engine"], rows["consistency"], strict=True)
        lossy = np.array(
            [not missing(c) and may_lose(str(e), str(c)) for e, c in pairs], dtype=bool
        )
        safe = set(rows.loc[~lossy, "store"])
        rows = rows[~lossy | ~rows["store"].isin(safe)]
    aside = set_aside(tables)
    gone = [place in aside for place in zip(rows["store"], rows["deployment"], strict=True)]
    return rows.loc[~np.array(gone, dtype=bool), columns].reset_index(drop=True)


def conditions_of(tables: Tables) -> Conditions:
    """The conditions of the trials that limit the certainty: other work, crashes, failures."""
    return Conditions(
        other_work=any(one.code == "busy_host" for one in tables.warnings),
        crashes=crashes_of(tables),
        failed=failed_of(tables),
        no_stores=no_stores(),
    )


def rules(
    tables: Tables,
    criteria: Sequence[Criterion],
    measures: pd.DataFrame,
    weights: Mapping[str, float],
) -> dict[str, Rule]:
    """The rule of each criterion: its direction, weight and smallest value.

    Without `weights` of the study those count that were measured for all stores and tell them apart
    at all, with the weights of `storewise.study.criteria`, which are mostly equal; cost does not if
    it is the same figure as loading, turned over.
    """
    stores = set(measures["store"]) - set(no_stores())
    of_stores = measures[measures["store"].isin(stores)]
    given = {c.name for c in criteria} & set(weights)
    most = max((weights[name] for name in given), default=1.0)  # sums of huge ones are no number
    walls = tables.throughput[tables.throughput["measure"] == "duration"]
    wall = walls.astype({"phase": str}).groupby("phase")["value"].median()
    every = {}
    for one in criteria:
        mine = of_stores[of_stores["criterion"] == one.name]
        weight = weights.get(one.name, 0.0) / most
        if not given:
            known = one.counts and set(mine["store"]) == stores and stores
            means = mine["value"].clip(lower=one.least).groupby(mine["store"]).mean()
            differ = len(means) < 2 or means.round(12).nunique() > 1
            turned = one.name == "cost" and _turned_over(of_stores)
            default = BY_KEY[one.name].default if one.name in BY_KEY else 1.0
            weight = default if known and differ and not turned else 0.0
        phases = set(map(str, one.values["phase"]))
        counted = one.name in COUNTED
        short = not counted and bool((wall.reindex(sorted(phases)) < LONG).any())
        every[one.name] = Rule(weight, one.more, one.least, counted, short, one.title)
    return every


def _turned_over(measures: pd.DataFrame) -> bool:
    """Whether cost times rate is the same for all stores: hosts and prices are, too."""
    wide = measures.pivot_table(index=[*PLACE[:-1], "round"], columns="criterion", values="value")
    load = next((name for name in ("load", "read") if name in wide), None)
    if load is None or "cost" not in wide:
        return False
    product = (wide["cost"] * wide[load]).dropna()
    return len(product) > 0 and bool(product.max() <= product.min() * 1.001)


def crashes_of(tables: Tables) -> dict[str, tuple[int, int]]:
    """For each store: the number of crashes that lost acknowledged documents, and the number of
    crashes for which this is known."""
    crashes = tables.crashes[tables.crashes["lost_documents"].notna()]
    if crashes.empty:
        return {}
    crashes = placed(crashes.merge(tables.trials, on="trial"), tables)
    return {
        str(store): (int((group["lost_documents"].astype(float) > 0).sum()), len(group))
        for store, group in crashes.groupby("store")
    }


def study_weights(study: Mapping[str, Any]) -> dict[str, float]:
    """The weights above 0 of a stored study; empty where it has none."""
    weights = study.get("weights")
    if not isinstance(weights, Mapping):
        return {}
    return {
        str(key): float(value)
        for key, value in weights.items()
        if key in KEYS and isinstance(value, int | float) and value > 0
    }


def whole_rounds(tables: Tables) -> tuple[list[int], int]:
    """The rounds (repeats) that have every setting of the stores that are judged, all where none
    has, and how many there are. The one in which a run was stopped lacks some: its stores would be
    compared at unlike times."""
    trials = tables.trials
    if "engine" in trials:
        trials = trials[~trials["engine"].map(title).isin([*failed_of(tables), *no_stores()])]
    settings = len(trials[list(tables.results.factors)].drop_duplicates())
    sizes = trials["repeat"].value_counts()
    whole = sizes.index[sizes == settings] if (sizes == settings).any() else sizes.index
    return sorted(whole), len(sizes)


def rounds_in_words(tables: Tables) -> str:
    """``3 rounds``, or ``2 of 3 rounds`` where the rest does not count."""
    whole, every = whole_rounds(tables)
    counted = f"{len(whole)} of " if len(whole) < every else ""
    return f"{counted}{every} round{'s' if every != 1 else ''}"


def failed_of(tables: Tables) -> dict[str, tuple[int, int]]:
    """Store -> trials that failed by its own fault, and all its trials; of stores with such ones.

    By the fault of its host a trial is only not there yet: the next run repeats it.
    """
    failed = [one for one in tables.results.failed if "engine" in one.factors]
    own = Counter(title(str(one.factors["engine"])) for one in failed if not one.host_fault)
    every = Counter(title(str(one.factors["engine"])) for one in failed)
    every += Counter(title(str(engine)) for engine in tables.results.trials.get("engine", []))
    return {store: (n, every[store]) for store, n in own.items() if store not in no_stores()}


def set_aside(tables: Tables) -> dict[tuple[str, str], str]:
    """(store, deployment) -> why nothing that it measured counts."""
    aside: dict[tuple[str, str], str] = {}
    trials = tables.results.trials
    if "engine" not in trials:
        return aside
    wrong = wrong_trials(tables.verification) - _lossy_crashes(tables)
    for row in records(placed(trials[trials["trial"].isin(wrong)], tables)):
        place = (str(row["store"]), str(row["deployment"]))
        aside[place] = "its store did not hold all that was written to it"
    return {place: why for place, why in aside.items() if place[0] not in no_stores()}


def _lossy_crashes(tables: Tables) -> set[str]:
    """Trials that lost documents only, in crashes, without having promised to keep them: the
    decision's sentence tells how many."""
    crashed = set(map(str, tables.crashes["trial"]))
    trials = tables.results.trials
    if not crashed or "consistency" not in trials:
        return set()
    relaxed = set(map(str, trials.loc[trials["consistency"] != "durable", "trial"]))
    checks = tables.verification
    wrong = checks["wrong"].fillna(0) > 0
    wrong |= checks["counted"].fillna(checks["expected"]) > checks["expected"]
    return (crashed & relaxed) - set(map(str, checks.loc[wrong, "trial"]))
