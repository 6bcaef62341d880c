"""How stores answered ``mv > ?``: by which plan, in what time, at which share of the readings.

From the notes of workload `measures`: one note per client, step, query and selectivity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.results import Results

#: Of one query at one selectivity, in one step of one trial.
KEYS = ("trial", "query", "step", "selectivity_pct")
PLAN_COLUMNS = (
    *KEYS,
    "threshold",
    "rows",
    "matched",
    "found",
    "executions",
    "seconds",
    "answered_by",
    "verb",
    "uses_index",
    "plan",
)
SUMMARY_COLUMNS = (
    *("query", "selectivity_pct", "threshold", "rows", "matched", "found", "n"),
    *("mean", "low", "high", "answered_by", "uses_index", "plan"),
)


def plans(results: Results) -> pd.DataFrame:
    """One row per trial, query, step and selectivity.

    Columns: KEYS; ``threshold`` (mv above which readings are looked for), ``rows`` (readings that
    are stored), ``matched`` (how many of them are above, by the generator; missing where that is
    only known of a sample), ``found`` (by the store), ``executions``, ``seconds`` (mean over
    executions of all clients), ``answered_by`` (store or client), ``verb``, ``uses_index`` (True
    or False by the plan, missing where it does not tell) and ``plan``, in the store's words.
    """
    gathered: dict[tuple[Any, ...], dict[str, Any]] = {}
    times: dict[tuple[Any, ...], list[float]] = {}
    for part in results.parts:
        for note in part.conditions.get("notes") or ():
            if not {"query", "selectivity_pct"} <= note.keys():
                continue
            key = (part.trial, note["query"], note["step"], note["selectivity_pct"])
            row = gathered.setdefault(key, {})
            row.update({k: v for k, v in note.items() if v is not None or k not in row})
            times.setdefault(key, []).extend(note["seconds"])
    rows = []
    for key in sorted(gathered):
        taken = times[key]
        row = {**gathered[key], **dict(zip(KEYS, key, strict=True)), "executions": len(taken)}
        row["seconds"] = sum(taken) / len(taken) if taken else None
        rows.append(row)
    found = pd.DataFrame(rows, columns=list(PLAN_COLUMNS))
    numbers = ("threshold", "rows", "matched", "found", "seconds", "selectivity_pct")
    return found.astype(dict.fromkeys(numbers, float))


def plan_summary(found: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Over the repeats and steps of equal factors: one row per factors' levels, query and
    selectivity. Columns: factors, then SUMMARY_COLUMNS; ``mean``, ``low`` (least) and ``high``
    (greatest) of the trials' seconds, ``uses_index`` missing where trials differ."""
    factors = list(results.factors)
    columns = [*factors, *SUMMARY_COLUMNS]
    if found.empty:
        return pd.DataFrame(columns=columns)
    joined = found.merge(results.trials[["trial", *factors]], on="trial")
    rows = []
    for key, own in grouped(joined, [*factors, "query", "selectivity_pct"]):
        used = set(own["uses_index"].dropna())
        first = own.iloc[0]
        rows.append(
            {
                **dict(zip([*factors, "query", "selectivity_pct"], key, strict=True)),
                **{k: first[k] for k in ("threshold", "rows", "matched", "found", "answered_by")},
                "n": int(own["seconds"].notna().sum()),
                "mean": own["seconds"].mean(),
                "low": own["seconds"].min(),
                "high": own["seconds"].max(),
                "uses_index": used.pop() if len(used) == 1 else None,
                "plan": first["plan"],
            }
        )
    return pd.DataFrame(rows, columns=columns)


def leavings(summary: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Where each engine left its secondary index, one sentence for each that had one."""
    if summary.empty or "index" not in summary:
        return []
    indexed = summary[(summary["index"] != "none") & summary["uses_index"].notna()]
    sentences: dict[tuple[str, str], list[str]] = {}
    for (engine, query), own in grouped(indexed, ["engine", "query"]):
        shares: dict[float, set[bool]] = {}
        for row in records(own):
            shares.setdefault(float(row["selectivity_pct"]), set()).add(bool(row["uses_index"]))
        # A share counts as left only where no setting used the index.
        without = sorted(share for share, used in shares.items() if used == {False})
        mixed = sorted(share for share, used in shares.items() if len(used) == 2)
        if not without and not mixed:
            text = f"used the index at every selectivity, up to {max(shares):g} %"
        elif len(without) == len(shares):
            text = "never used the index"
        elif without and without == sorted(shares)[-len(without) :] and not mixed:
            text = f"left the index from {without[0]:g} % on"
        else:
            parts = [f"did not use the index at {_list(without)}"] if without else []
            parts += [f"used it only in some settings at {_list(mixed)}"] if mixed else []
            text = " and ".join(parts)
        sentences.setdefault((str(engine), text), []).append(str(query))
    return [
        f"{title(engine)} {text} ({all_of(queries)})."
        for (engine, text), queries in sentences.items()
    ]


def _list(shares: Sequence[float]) -> str:
    return all_of([f"{share:g} %" for share in shares])


def plan_warnings(found: pd.DataFrame, results: Results) -> list[StudyWarning]:
    """Queries that a client answered for its store, stores that found other numbers than there
    are, and phases whose rates mix selectivities."""
    warnings = _mixtures(found)
    factors: Mapping[str, Mapping[str, Any]] = {
        str(row["trial"]): row for row in records(results.trials)
    }
    # Not every part tells of the engine: that of the verification does not.
    keeps_none = {p.trial for p in results.parts if not _stores(p.conditions)}
    for (trial,), own in grouped(found, ["trial"]):
        queries = sorted(set(own.loc[own["answered_by"] == "client", "query"]))
        if queries:
            engine = title(str(factors[str(trial)].get("engine", "")))
            verbs = sorted(set(own.loc[own["answered_by"] == "client", "verb"]))
            warnings.append(
                StudyWarning(
                    "answered_by_client",
                    str(trial),
                    f"{engine} knows no conditions on fields: its client answered "
                    f"{all_of(queries)} from what {all_of(verbs)} gave",
                    "compare these times with others of the same kind only",
                )
            )
        wrong = own[(own["found"] != own["matched"]) & own["matched"].notna()]
        wrong = wrong[wrong["found"].notna()]
        if len(wrong) and str(trial) not in keeps_none:
            row = records(wrong)[0]
            warnings.append(
                StudyWarning(
                    "wrong_number",
                    str(trial),
                    f"{row['query']} at {row['selectivity_pct']:g} % found {row['found']:.0f} "
                    f"readings, there are {row['matched']:.0f} (in {len(wrong)} cases)",
                    "see the trial's verification: what is lost cannot be found",
                )
            )
    return warnings


def _mixtures(found: pd.DataFrame) -> list[StudyWarning]:
    """Phases that asked for several shares in one step: their rates are of none of them."""
    shares: dict[str, int] = {}
    for (query, _, _), own in grouped(found, ["query", "trial", "step"]):
        number = int(own["selectivity_pct"].nunique())
        shares[str(query)] = max(number, shares.get(str(query), 0))
    return [
        StudyWarning(
            "mixed_selectivities",
            "",
            f"phase {query}: its rates and percentiles are of up to {number} selectivities "
            "together, of which the largest takes most of the time",
            "see the table of plans for each of them, or give each a step of its own "
            "(`sweep: {selectivity_pct: [...]}`)",
        )
        for query, number in sorted(shares.items())
        if number > 1
    ]


def _stores(conditions: Mapping[str, Any]) -> bool:
    engine = conditions.get("engine")
    return not isinstance(engine, Mapping) or bool(engine.get("stores", True))


def index_word(row: Mapping[str, Any]) -> str:
    """How a query was answered, in a word or two."""
    if row["answered_by"] == "client":
        return "no: by the client"
    if missing(row["uses_index"]):
        return "not told"
    return "yes" if row["uses_index"] else "no"
