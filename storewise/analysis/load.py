"""A study's stored results as one long table, with all that is doubtful about them as warnings.

Nothing else in this package reads files. Results stay usable whatever became of the study: trials
may be missing, failed, or measured with an older config; each such case is a warning, never
silence. The layout of a study's directory is in ``results/README.md``, the parts' schema in
``docs/results.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from storewise.analysis.inputs import (
    FailedTrial,
    InputTotals,
    Quarantined,
    read_failed,
    read_manifest,
    read_quarantine,
)
from storewise.analysis.parts import (
    SESSION,
    HdrLog,
    Part,
    missing_parts,
    mixed,
    own_warnings,
    read_trials,
    refused_by_workers,
    whole_phases,
)
from storewise.analysis.sessions import session_warnings
from storewise.analysis.staleness import (
    expected_trials,
    left_out_warnings,
    read_left_out,
    stale_warnings,
    trials_of,
)
from storewise.analysis.warning import StudyWarning
from storewise.errors import ConfigError, ResultError
from storewise.metrics.schema import CORE, FACTOR_PREFIX
from storewise.references import Reference, parse_reference
from storewise.studycheck import SERVER_FACTORS
from storewise.workloads.registry import WORKLOADS, workload

#: Which engines the host that planned the study did not have.
LEFT_OUT = "left_out.json"
#: The texts of the published studies that the study names.
REFERENCES = "references.json"


@dataclass(frozen=True, slots=True)
class Results:
    """All results of a study.

    `samples` is the long table of the result schema with one column per factor, typed as in the
    study (a factor whose name a column of the schema has keeps its ``factor.`` prefix). `trials`
    has one row per trial with results: trial, repeat, factors, phases, host. Trials that failed
    for good are only in `failed`.
    """

    directory: Path
    study: Mapping[str, Any]
    samples: pd.DataFrame
    trials: pd.DataFrame
    factors: tuple[str, ...]
    parts: Sequence[Part]
    logs: Sequence[HdrLog]
    failed: Sequence[FailedTrial]
    inputs: InputTotals | None
    quarantined: Sequence[Quarantined]
    warnings: Sequence[StudyWarning]
    references: Sequence[Reference] = ()


def load_results(directory: Path) -> Results:
    """Read a study's directory; raises ResultError where it holds nothing to analyse."""
    if not directory.is_dir():
        raise ResultError(
            f"{directory}: there is no such directory of results; run the study first "
            "(`storewise run STUDY`)"
        )
    warnings: list[StudyWarning] = []
    failed: list[FailedTrial] = []
    for path in sorted(directory.glob("trials/*/failed.json")):
        one, found = read_failed(path)
        failed.append(one)
        warnings += found
    left_out = {one.trial for one in failed}
    parts, tables, logs = read_trials(directory, left_out, warnings)
    # Nodes without clients have nothing to tell; such a trial counts as not yet measured.
    measured = {part.trial for part in parts if part.phase != SESSION}
    tables = [t for t, part in zip(tables, parts, strict=True) if part.trial in measured]
    parts = [part for part in parts if part.trial in measured]
    if not parts and not failed:
        raise ResultError(
            f"{directory}: no trial has results yet (expected trials/*/PHASE.WORKER.parquet); "
            "run the study first (`storewise run STUDY`)"
        )
    factors = _factor_values(parts)
    samples, names = _long_table(tables, factors)
    study = _read_study(directory / "study.json", warnings)
    inputs: InputTotals | None = None
    if _reads_inputs(study):
        inputs, found = read_manifest(directory / "inputs" / "manifest.parquet")
        warnings += found
    quarantined, found = read_quarantine(directory / "inputs" / "quarantine.tsv")
    warnings += found
    quarantined += refused_by_workers(parts)
    warnings += missing_parts(parts, logs)
    warnings += mixed(parts)
    warnings += session_warnings(parts)
    if study:
        stored = {p.trial: p.conditions for p in parts}
        expected = expected_trials(study)
        missing = read_left_out(directory / LEFT_OUT)
        warnings += left_out_warnings(missing, expected, stored)
        excused = {f.trial for f in failed} | trials_of(missing, expected)
        warnings += stale_warnings(expected, stored, excused)
    warnings += own_warnings(parts)
    references = _read_references(directory / REFERENCES, study, warnings)
    return Results(
        directory=directory,
        study=study,
        samples=samples,
        trials=_trial_table(samples, names),
        factors=names,
        parts=parts,
        logs=logs,
        failed=failed,
        inputs=inputs,
        quarantined=quarantined,
        warnings=sorted(set(warnings)),
        references=references,
    )


def _reads_inputs(study: Mapping[str, Any]) -> bool:
    """Whether the study's workload has a manifest; one of a later version may have."""
    name = study.get("workload", "alignments")
    return name not in WORKLOADS or workload(name).reads_inputs


def _read_study(path: Path, warnings: list[StudyWarning]) -> dict[str, Any]:
    try:
        study = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(study, dict):
            return study
        problem = "not a JSON object"
    except (OSError, ValueError) as error:
        problem = str(error)
    warnings.append(
        StudyWarning(
            "no_study",
            "",
            f"{path}: {problem}; trials cannot be compared with what the study asks for",
            "run `snakemake report` with the study's file, which writes it again",
        )
    )
    return {}


def _read_references(
    path: Path, study: Mapping[str, Any], warnings: list[StudyWarning]
) -> list[Reference]:
    """The published studies that were kept with the results; one that cannot be read is told."""
    if not study.get("references"):
        return []
    found = []
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        for name, texts in kept.items():
            where = f"{path}: {name}"
            found.append(parse_reference(name, texts["yaml"], texts["csv"], where))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        warnings.append(
            StudyWarning(
                "no_reference",
                "",
                f"published figures cannot be shown: {error}",
                "run `snakemake analysis` with the study's file, which writes them again",
            )
        )
    return found


def _factor_values(parts: Sequence[Part]) -> dict[str, dict[str, Any]]:
    """Factor levels by trial, with the types that the study gave them."""
    return {part.trial: dict(part.conditions.get("factors") or {}) for part in parts}


def _long_table(
    tables: Sequence[pa.Table], factors: Mapping[str, Mapping[str, Any]]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    core = [table.select(CORE.names).replace_schema_metadata(None) for table in tables]
    samples = (
        pa.concat_tables(core).unify_dictionaries() if core else CORE.empty_table()
    ).to_pandas()
    names = sorted({name for levels in factors.values() for name in levels}, key=_factor_order)
    codes = samples["trial"].cat.codes.to_numpy()
    trials = list(samples["trial"].cat.categories)
    columns = []
    for name in names:
        column = f"{FACTOR_PREFIX}{name}" if name in CORE.names else name
        levels = pd.Series([_plain(factors[trial].get(name)) for trial in trials], dtype=object)
        samples[column] = pd.Series(levels.infer_objects().array.take(codes), index=samples.index)
        columns.append(column)
    return samples, tuple(columns)


_ORDER = (
    "engine",
    *SERVER_FACTORS,
    "volume",
    "workers",
    "processes",
    "threads",
    "consistency",
    "index",
)


def _factor_order(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _plain(value: Any) -> Any:
    """A level that pandas can group by."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _trial_table(samples: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    columns = ["trial", "repeat", *factors]
    samples = samples[samples["phase"] != SESSION]
    if samples.empty:
        return pd.DataFrame(columns=[*columns, "phases", "host"])
    by_trial = samples.groupby("trial", observed=True, sort=True)
    table = by_trial[columns[1:]].first().reset_index()
    table["trial"] = table["trial"].astype(str)
    table["phases"] = [", ".join(map(str, pd.unique(group))) for _, group in by_trial["phase"]]
    table["host"] = [", ".join(map(str, pd.unique(group))) for _, group in by_trial["host"]]
    return table


def phase_samples(results: Results) -> pd.DataFrame:
    """The samples of phases of which every worker's part is there."""
    whole = whole_phases(results.parts)
    samples = results.samples
    keep = {
        (trial, phase): (str(trial), str(phase)) in whole
        for trial, phase in samples[["trial", "phase"]].drop_duplicates().itertuples(index=False)
    }
    mask = np.fromiter(
        (keep[key] for key in zip(samples["trial"], samples["phase"], strict=True)),
        dtype=bool,
        count=len(samples),
    )
    return samples[mask]
