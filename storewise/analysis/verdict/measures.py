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

#: Columns that identify a setting and its criterion; `round`, `value`, FINISHED and SOURCE_ROW
#: follow.
PLACE = ["store", "engine", "deployment", "clients", "volume", "criterion"]
#: Criteria that are counts of files or bytes, which have no random error.
COUNTED = ("disk", "inodes")
#: Shortest phase in s whose rate is not dominated by its start.
MIN_PHASE_SECONDS = 5.0


def no_stores() -> tuple[str, ...]:
    """Titles of engines that are no stores (`files`, `null`): never recommended."""
    return (title(BASELINE), title(CEILING))


def without_server(tables: Tables) -> set[str]:
    """The stores that need no server (embedded): each writing process has its own database."""
    engines = set(map(str, tables.trials.get("engine", ())))
    return {title(name) for name in engines if embedded(name)}


def placed(frame: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """A frame of rows with factors, with the columns `store`, `deployment`, `clients` (in words)
    and `volume` (share of all inputs, 0 to 1) added."""
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

    A round is one repeat of one run: trials that were added later ran on another day. Left out:
    incomplete repeats (`whole_rounds`), stores with failed trials (`failed_of`), deployments with
    wrong data (`set_aside`), and levels of consistency that may lose acknowledged writes, if the
    store was also measured at a safe level. Stores with different guarantees are not compared by
    speed.
    """
    columns = [*PLACE, "round", "value", FINISHED, SOURCE_ROW]
    if not criteria:
        return pd.DataFrame(columns=columns)
    rows = pd.concat([criterion.values.assign(criterion=criterion.name) for criterion in criteria])
    rows = placed(rows.merge(tables.trials, on="trial"), tables)
    run_of = {part.trial: part.conditions.get("run") for part in tables.results.parts}
    rounds = zip(rows["trial"], rows["repeat"], strict=True)
    rows["round"] = [f"{run_of.get(trial)} {repeat}" for trial, repeat in rounds]
    complete, _ = whole_rounds(tables)
    rows = rows[(rows["engine"] != CEILING) & rows["repeat"].isin(complete)]
    rows = rows[~rows["store"].isin(list(failed_of(tables)))]
    if "consistency" in rows:
        pairs = zip(rows["engine"], rows["consistency"], strict=True)
        lossy = np.array(
            [not missing(c) and may_lose(str(e), str(c)) for e, c in pairs], dtype=bool
        )
        safe = set(rows.loc[~lossy, "store"])
        rows = rows[~lossy | ~rows["store"].isin(safe)]
    excluded = set_aside(tables)
    left_out = [place in excluded for place in zip(rows["store"], rows["deployment"], strict=True)]
    return rows.loc[~np.array(left_out, dtype=bool), columns].reset_index(drop=True)


def conditions_of(tables: Tables) -> Conditions:
    """Conditions of the trials that limit the certainty: other work on hosts, crashes, failures."""
    return Conditions(
        other_work=any(warning.code == "busy_host" for warning in tables.warnings),
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

    If the study has no `weights`, a criterion counts if it was measured for all stores and if they
    differ in it, with its weight in `storewise.study.criteria` (mostly equal). Cost does not count
    if it is only the reciprocal of the load rate.
    """
    stores = set(measures["store"]) - set(no_stores())
    of_stores = measures[measures["store"].isin(stores)]
    given = {c.name for c in criteria} & set(weights)
    largest = max((weights[name] for name in given), default=1.0)  # sums of huge weights overflow
    walls = tables.throughput[tables.throughput["measure"] == "duration"]
    wall = walls.astype({"phase": str}).groupby("phase")["value"].median()
    result = {}
    for c in criteria:
        rows = of_stores[of_stores["criterion"] == c.name]
        weight = weights.get(c.name, 0.0) / largest
        if not given:
            complete = c.counts and set(rows["store"]) == stores and stores
            means = rows["value"].clip(lower=c.least).groupby(rows["store"]).mean()
            differ = len(means) < 2 or means.round(12).nunique() > 1
            redundant = c.name == "cost" and _turned_over(of_stores)
            default = BY_KEY[c.name].default if c.name in BY_KEY else 1.0
            weight = default if complete and differ and not redundant else 0.0
        phases = set(map(str, c.values["phase"]))
        counted = c.name in COUNTED
        short = not counted and bool((wall.reindex(sorted(phases)) < MIN_PHASE_SECONDS).any())
        result[c.name] = Rule(weight, c.more, c.least, counted, short, c.title)
    return result


def _turned_over(measures: pd.DataFrame) -> bool:
    """Whether cost times rate is the same for all stores, because hosts and prices are."""
    wide = measures.pivot_table(index=[*PLACE[:-1], "round"], columns="criterion", values="value")
    load = next((name for name in ("load", "read") if name in wide), None)
    if load is None or "cost" not in wide:
        return False
    product = (wide["cost"] * wide[load]).dropna()
    return len(product) > 0 and bool(product.max() <= product.min() * 1.001)


def crashes_of(tables: Tables) -> dict[str, tuple[int, int]]:
    """Store -> (crashes that lost acknowledged documents, crashes for which the loss is known)."""
    crashes = tables.crashes[tables.crashes["lost_documents"].notna()]
    if crashes.empty:
        return {}
    crashes = placed(crashes.merge(tables.trials, on="trial"), tables)
    return {
        str(store): (int((group["lost_documents"].astype(float) > 0).sum()), len(group))
        for store, group in crashes.groupby("store")
    }


def study_weights(study: Mapping[str, Any]) -> dict[str, float]:
    """Criterion -> weight above 0 in a stored study; empty if the study has no weights."""
    weights = study.get("weights")
    if not isinstance(weights, Mapping):
        return {}
    return {
        str(key): float(value)
        for key, value in weights.items()
        if key in KEYS and isinstance(value, int | float) and value > 0
    }


def whole_rounds(tables: Tables) -> tuple[list[int], int]:
    """The complete rounds (numbers of repeats with a trial of every setting of the judged stores;
    all if none is complete), and the number of all rounds. Rounds of a stopped run are incomplete:
    their stores would be compared at different times."""
    trials = tables.trials
    if "engine" in trials:
        trials = trials[~trials["engine"].map(title).isin([*failed_of(tables), *no_stores()])]
    settings = len(trials[list(tables.results.factors)].drop_duplicates())
    sizes = trials["repeat"].value_counts()
    complete = sizes.index[sizes == settings] if (sizes == settings).any() else sizes.index
    return sorted(complete), len(sizes)


def rounds_in_words(tables: Tables) -> str:
    """The number of rounds as text: ``3 rounds``, or ``2 of 3 rounds`` if only two are complete."""
    complete, total = whole_rounds(tables)
    counted = f"{len(complete)} of " if len(complete) < total else ""
    return f"{counted}{total} round{'s' if total != 1 else ''}"


def failed_of(tables: Tables) -> dict[str, tuple[int, int]]:
    """Store -> (trials that failed by the store's fault, all its trials), for such stores.

    Failures by the host's fault do not count: the next run repeats these trials.
    """
    failed = [t for t in tables.results.failed if "engine" in t.factors]
    at_fault = Counter(title(str(t.factors["engine"])) for t in failed if not t.host_fault)
    total = Counter(title(str(t.factors["engine"])) for t in failed)
    total += Counter(title(str(engine)) for engine in tables.results.trials.get("engine", []))
    return {store: (n, total[store]) for store, n in at_fault.items() if store not in no_stores()}


def set_aside(tables: Tables) -> dict[tuple[str, str], str]:
    """(store, deployment) -> the reason why none of its figures count."""
    reasons: dict[tuple[str, str], str] = {}
    trials = tables.results.trials
    if "engine" not in trials:
        return reasons
    wrong = wrong_trials(tables.verification) - _lossy_crashes(tables)
    for row in records(placed(trials[trials["trial"].isin(wrong)], tables)):
        place = (str(row["store"]), str(row["deployment"]))
        reasons[place] = "its store did not hold all that was written to it"
    return {place: reason for place, reason in reasons.items() if place[0] not in no_stores()}


def _lossy_crashes(tables: Tables) -> set[str]:
    """Trials with lost documents as their only error, after a crash and at a consistency level that
    allows the loss: the decision's sentence has their number."""
    crashed = set(map(str, tables.crashes["trial"]))
    trials = tables.results.trials
    if not crashed or "consistency" not in trials:
        return set()
    relaxed = set(map(str, trials.loc[trials["consistency"] != "durable", "trial"]))
    checks = tables.verification
    wrong = checks["wrong"].fillna(0) > 0
    wrong |= checks["counted"].fillna(checks["expected"]) > checks["expected"]
    return (crashed & relaxed) - set(map(str, checks.loc[wrong, "trial"]))
