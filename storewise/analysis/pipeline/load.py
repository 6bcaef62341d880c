"""A study's stored results, reduced to figures, with all that is doubtful about them as warnings.

Nothing else in this package but what is called here reads files. Results stay usable whatever
became of the study: trials may be missing, failed, or measured with an older config; each such case
is a warning, never silence. The layout of a study's directory is in ``results/README.md``,
the parts' schema in ``docs/results.md``.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.attempts import read_attempts
from storewise.analysis.files.inputs import (
    FailedTrial,
    InputTotals,
    read_failed,
    read_manifest,
    read_quarantine,
)
from storewise.analysis.files.parts import (
    Part,
    missing_parts,
    mixed,
    own_warnings,
    refused_by_workers,
    trial_files,
)
from storewise.analysis.files.run_record import record_damage
from storewise.analysis.files.samples import read_samples
from storewise.analysis.files.staleness import (
    expected_trials,
    left_out_warnings,
    read_left_out,
    stale_warnings,
    trials_of,
)
from storewise.analysis.measure.sessions import session_warnings
from storewise.analysis.measure.trials import Study, measure, together
from storewise.analysis.model.results import Results as Results
from storewise.analysis.pipeline.parallel import Progress, Read, read_trials
from storewise.errors import ConfigError, ResultError
from storewise.metrics.schema import CORE, FACTOR_PREFIX
from storewise.study.factors import OF_SERVERS
from storewise.study.references import Reference, parse_reference
from storewise.workloads.registry import WORKLOADS, workload

#: Which engines the host that planned the study did not have.
LEFT_OUT = "left_out.json"
#: The texts of the published studies that the study names.
REFERENCES = "references.json"


def load_results(
    directory: Path, *, processes: int | None = None, progress: Progress | None = None
) -> Results:
    """Read a study's directory; raises ResultError where it holds nothing to analyse.

    At most `processes` read at once (`readers.read_trials`); `progress` is called with the number
    of trials read, and of all.
    """
    if not directory.is_dir():
        raise ResultError(
            f"{directory}: there is no such directory of results; run the study first "
            "(`storewise run STUDY`)"
        )
    with _no_collection():
        return _load(directory, processes, progress)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without looking for cycles among a million new objects, again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _load(directory: Path, processes: int | None, progress: Progress | None) -> Results:
    warnings: list[StudyWarning] = []
    failed: list[FailedTrial] = []
    for path in sorted(directory.glob("trials/*/failed.json")):
        one, told = read_failed(path)
        failed.append(one)
        warnings += told
    study = _read_study(directory / "study.json", warnings)
    inputs: InputTotals | None = None
    if _reads_inputs(study):
        inputs, told = read_manifest(directory / "inputs" / "manifest.parquet")
        warnings += told
    about = Study(
        inputs=inputs,
        # Of an engine that the study no longer has there may be trials, named after it.
        files=not study
        or BASELINE in (study.get("engines") or ())
        or any(directory.glob(f"trials/{BASELINE}-*")),
        published=bool(study.get("references")),
    )
    found = _trials(directory, {one.trial for one in failed}, about, processes, progress)
    parts = [part for one in found for part in one.parts]
    logs = [log for one in found for log in one.logs]
    warnings += [warning for one in found for warning in one.warnings]
    if not parts and not failed:
        raise ResultError(
            f"{directory}: no trial has results yet (expected trials/*/PHASE.WORKER.parquet); "
            "run the study first (`storewise run STUDY`)"
        )
    measured = together([one.measured for one in found])
    trials, names = _trial_table(measured.trials, _factor_values(parts))
    quarantined, told = read_quarantine(directory / "inputs" / "quarantine.tsv")
    warnings += told
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
    attempts, told = read_attempts(directory, {part.trial for part in parts})
    warnings += told
    if problem := record_damage(directory):
        warnings.append(
            StudyWarning(
                "unreadable_record",
                "",
                f"{problem}; no figure is of it",
                "delete the file: the next run that measures writes it anew",
            )
        )
    references = _read_references(directory / REFERENCES, study, warnings)
    return Results(
        directory=directory,
        study=study,
        measured=measured,
        trials=trials,
        factors=names,
        parts=parts,
        logs=logs,
        failed=failed,
        inputs=inputs,
        quarantined=quarantined,
        warnings=sorted(set(warnings)),
        references=references,
        attempts=attempts,
    )


def _trials(
    directory: Path,
    left_out: set[str],
    study: Study,
    processes: int | None,
    progress: Progress | None,
) -> list[Read]:
    """All trials but those left out; one without any where there are none."""
    place = directory / "trials"
    names = sorted(place.iterdir()) if place.is_dir() else []
    trials = [trial_files(p) for p in names if p.name not in left_out and p.is_dir()]
    found = read_trials(trials, study, processes=processes, progress=progress)
    return found or [Read([], [], measure([], [], read_samples([]).rows, study), [])]


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
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError as error:
        problem = f"cut short or changed: {error}"
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


_ORDER = (
    "engine",
    *OF_SERVERS,
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


def _trial_table(
    found: pd.DataFrame, factors: Mapping[str, Mapping[str, Any]]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The trials with a column for each factor, and these columns' names."""
    table = found[["trial", "repeat"]].copy()
    columns = []
    for name in sorted({n for levels in factors.values() for n in levels}, key=_factor_order):
        column = f"{FACTOR_PREFIX}{name}" if name in CORE.names else name
        levels = [_plain(factors[trial].get(name)) for trial in table["trial"]]
        table[column] = pd.Series(levels, dtype=object).infer_objects()
        columns.append(column)
    return table.assign(phases=found["phases"], host=found["host"]), tuple(columns)
