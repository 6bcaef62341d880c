"""A study's stored results as one long table, with all that is doubtful about them as warnings.

Nothing else in this package reads files. Results stay usable whatever became of the study: trials
may be missing, failed, or measured with an older config; each such case is a warning, never
silence. The layout of a study's directory is in ``results/README.md``, the parts' schema in
``docs/results.md``.
"""

from __future__ import annotations

import json
import re
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
from storewise.analysis.staleness import expected_trials, stale_warnings
from storewise.analysis.warning import StudyWarning
from storewise.errors import ResultError
from storewise.metrics.schema import CORE, FACTOR_PREFIX, read_part

_PART = re.compile(r"(?P<phase>[a-z_]+)\.(?P<worker>\d+)\.parquet")
_LOG = re.compile(r"(?P<phase>[a-z_]+)\.(?P<worker>\d+)\.hlog")
#: Files of a trial that hold no samples: the write workers' lists of what they wrote.
_NO_PARTS = ("written",)
VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Part:
    """One result file; `worker` is None for the verification."""

    path: Path
    trial: str
    phase: str
    worker: int | None
    conditions: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HdrLog:
    """One worker's Hdr interval log of one phase."""

    path: Path
    trial: str
    phase: str
    worker: int


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
    parts, tables, logs = _read_trials(directory, left_out, warnings)
    if not parts and not failed:
        raise ResultError(
            f"{directory}: no trial has results yet (expected trials/*/PHASE.WORKER.parquet); "
            "run the study first (`storewise run STUDY`)"
        )
    factors = _factor_values(parts)
    samples, names = _long_table(tables, factors)
    study = _read_study(directory / "study.json", warnings)
    inputs, found = read_manifest(directory / "inputs" / "manifest.parquet")
    warnings += found
    quarantined, found = read_quarantine(directory / "inputs" / "quarantine.tsv")
    warnings += found
    quarantined += refused_by_workers(parts)
    warnings += missing_parts(parts, logs)
    warnings += mixed(parts)
    if study:
        stored = {p.trial: p.conditions for p in parts}
        warnings += stale_warnings(expected_trials(study), stored, {f.trial for f in failed})
    warnings += _own_warnings(parts)
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
    )


def _read_trials(
    directory: Path, left_out: set[str], warnings: list[StudyWarning]
) -> tuple[list[Part], list[pa.Table], list[HdrLog]]:
    parts: list[Part] = []
    tables: list[pa.Table] = []
    logs: list[HdrLog] = []
    for path in sorted(directory.glob("trials/*/*")):
        trial = path.parent.name
        if trial in left_out or path.name.startswith("."):
            continue
        if log := _LOG.fullmatch(path.name):
            logs.append(HdrLog(path, trial, log["phase"], int(log["worker"])))
            continue
        match = _PART.fullmatch(path.name)
        if path.name != f"{VERIFY}.parquet" and (match is None or match["phase"] in _NO_PARTS):
            continue
        try:
            table, conditions = read_part(path)
            if table.num_rows and set(table["trial"].unique().to_pylist()) != {trial}:
                raise ResultError(f"{path}: its rows are of another trial than its directory")
        except ResultError as error:
            warnings.append(
                StudyWarning(
                    "unreadable_part", trial, str(error), "delete the file and measure again"
                )
            )
            continue
        parts.append(
            Part(
                path,
                trial,
                match["phase"] if match else VERIFY,
                int(match["worker"]) if match else None,
                conditions,
            )
        )
        tables.append(table)
    return parts, tables, logs


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


_ORDER = ("engine", "workers", "processes", "threads", "consistency", "index")


def _factor_order(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _plain(value: Any) -> Any:
    """A level that pandas can group by."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _trial_table(samples: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    columns = ["trial", "repeat", *factors]
    if samples.empty:
        return pd.DataFrame(columns=[*columns, "phases", "host"])
    by_trial = samples.groupby("trial", observed=True, sort=True)
    table = by_trial[columns[1:]].first().reset_index()
    table["trial"] = table["trial"].astype(str)
    table["phases"] = [", ".join(map(str, pd.unique(group))) for _, group in by_trial["phase"]]
    table["host"] = [", ".join(map(str, pd.unique(group))) for _, group in by_trial["host"]]
    return table


def workers_of(part: Part) -> int:
    """How many workers the part's trial has."""
    trial = part.conditions.get("trial")
    if isinstance(trial, Mapping) and "workers" in trial:
        return int(trial["workers"])
    return int((part.conditions.get("factors") or {}).get("workers", 1))


def threads_of(part: Part) -> int:
    """Client threads of each process in the part's first step (a load has only one)."""
    steps = part.conditions.get("steps") or [{}]
    factors = part.conditions.get("factors") or {}
    return int(steps[0].get("threads", factors.get("threads", 1)))


def processes_of(part: Part) -> int:
    """Client processes of each worker of the part's trial."""
    return int((part.conditions.get("factors") or {}).get("processes", 1))


def missing_parts(parts: Sequence[Part], logs: Sequence[HdrLog]) -> list[StudyWarning]:
    """Phases of which a worker's file is missing; their sums would be too low."""
    found: list[StudyWarning] = []
    have = {(p.trial, p.phase, p.worker) for p in parts}
    logged = {(log.trial, log.phase, log.worker) for log in logs}
    for part in parts:
        if part.worker is None:
            continue
        gone = [k for k in range(workers_of(part)) if (part.trial, part.phase, k) not in have]
        if gone:
            found.append(
                StudyWarning(
                    "missing_worker",
                    part.trial,
                    f"phase {part.phase}: no result of worker {', '.join(map(str, gone))}; "
                    "the phase is left out of all figures",
                    "run the study again: it measures what is missing",
                )
            )
        if (part.trial, part.phase, part.worker) not in logged:
            found.append(
                StudyWarning(
                    "missing_log",
                    part.trial,
                    f"phase {part.phase}: worker {part.worker} has no Hdr log; "
                    "its latencies are left out",
                    "run the study again: it measures what is missing",
                )
            )
    verified = {p.trial for p in parts if p.phase == VERIFY}
    return found + [
        StudyWarning(
            "not_verified",
            trial,
            "its stored documents were not verified",
            "run the study again: it verifies what is missing",
        )
        for trial in sorted({p.trial for p in parts} - verified)
    ]


def whole_phases(parts: Sequence[Part]) -> set[tuple[str, str]]:
    """(trial, phase) of which every worker's part is there."""
    have: dict[tuple[str, str], set[int]] = {}
    for part in parts:
        if part.worker is not None:
            have.setdefault((part.trial, part.phase), set()).add(part.worker)
    wanted = {(p.trial, p.phase): workers_of(p) for p in parts if p.worker is not None}
    return {key for key, workers in have.items() if workers >= set(range(wanted[key]))}


def mixed(parts: Sequence[Part]) -> list[StudyWarning]:
    """Conditions that should be the same in all trials and are not."""
    found: list[StudyWarning] = []
    versions: dict[str, dict[str, set[str]]] = {}
    hosts: dict[str, set[str]] = {}
    systems: dict[str, set[str]] = {}
    for part in parts:
        for name, version in (part.conditions.get("versions") or {}).items():
            versions.setdefault(str(name), {}).setdefault(str(version), set()).add(part.trial)
        name, system = host_of(part.conditions)
        hosts.setdefault(name, set()).add(part.trial)
        systems.setdefault(system, set()).add(part.trial)
    for name, by_version in sorted(versions.items()):
        if len(by_version) > 1:
            found.append(
                StudyWarning(
                    "mixed_versions",
                    "",
                    f"{name} differs between trials: {', '.join(sorted(by_version))}",
                    "delete the trials of the older version and measure them again",
                )
            )
    if len(systems) > 1:
        found.append(
            StudyWarning(
                "mixed_hosts",
                "",
                f"trials ran on different kinds of hosts: {'; '.join(sorted(systems))}",
                "compare engines only within one kind; ask the scheduler for one node type",
            )
        )
    return found


def host_of(conditions: Mapping[str, Any]) -> tuple[str, str]:
    """(host name, what matters of it for speed) as the conditions of a part tell them."""
    host = conditions.get("host")
    if not isinstance(host, Mapping):
        return str(host or "unknown"), "unknown"
    memory = host.get("memory_bytes")
    shown = f"{round(float(memory) / 2**30)} GiB" if memory else "memory unknown"
    kind = f"{host.get('processor', 'unknown')}, {host.get('cpus', '?')} CPUs, {shown}"
    return str(host.get("name", "unknown")), kind


def refused_by_workers(parts: Sequence[Part]) -> list[Quarantined]:
    """Input files that passed the manifest and that a write worker found to be bad."""
    found = {
        Quarantined(
            str(file.get("path", "unknown")),
            str(file.get("line") or ""),
            str(file.get("offset") or ""),
            str(file.get("reason", "unknown")),
        )
        for part in parts
        for file in part.conditions.get("quarantined") or ()
    }
    return sorted(found, key=lambda one: one.path)


def _own_warnings(parts: Sequence[Part]) -> list[StudyWarning]:
    """Warnings that the workers themselves left in their conditions."""
    found = []
    for part in parts:
        for text in part.conditions.get("warnings") or ():
            if isinstance(text, Mapping):
                message, remedy = str(text.get("message", text)), str(text.get("remedy", ""))
                code = str(text.get("code", "worker"))
            else:
                message, remedy, code = str(text), "", "worker"
            found.append(StudyWarning(code, part.trial, message, remedy))
    return found


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
