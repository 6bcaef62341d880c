"""Read a study's stored results and reduce them to figures, with warnings.

All reading of files in this package starts here. Results are usable even if the study changed:
trials may be missing, failed, or measured with an older config; each case is a warning. The layout
of a study's directory is in ``results/README.md``, the parts' schema in ``docs/results.md``.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from storewise.analysis.common.engines import set_server_titles
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import has_inputs, read_failed, read_manifest, read_quarantine
from storewise.analysis.files.outdated_trials import (
    expected_trials,
    left_out_warnings,
    no_study,
    read_left_out,
    stale_warnings,
    trials_of,
)
from storewise.analysis.files.parts import (
    job_warnings,
    missing_parts,
    mixed,
    refused_by_workers,
    trial_files,
)
from storewise.analysis.files.runs import read_attempts
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.sessions import session_warnings
from storewise.analysis.measure.trials import concatenate, measure
from storewise.analysis.model.results import Results as Results
from storewise.analysis.pipeline.parallel import Progress, Read, read_trials
from storewise.errors import ConfigError, ResultError
from storewise.layout import (
    FAILED,
    LEFT_OUT,
    MANIFEST,
    QUARANTINE,
    REFERENCES,
    SAMPLED_OF,
    STUDY,
    TRIALS,
    VERIFIED,
)
from storewise.metrics.schema import CORE, FACTOR_PREFIX
from storewise.study.factors import OF_SERVERS
from storewise.study.references import Reference, parse_reference

T = TypeVar("T")


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector, which would scan a million new objects repeatedly."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_paused_collector()
def load_results(
    directory: Path, *, processes: int | None = None, progress: Progress | None = None
) -> Results:
    """Read a study's directory; raises ResultError if it holds nothing to analyse.

    At most `processes` processes read at once (`parallel.read_trials`); `progress` is called with
    the number of trials read and of all trials.
    """
    if not directory.is_dir():
        raise ResultError(
            f"{directory}: there is no such directory of results; run the study first "
            "(`storewise run STUDY`)"
        )
    warnings: list[StudyWarning] = []

    def collect(read: tuple[T, list[StudyWarning]]) -> T:
        warnings.extend(read[1])
        return read[0]

    failed = [collect(read_failed(path)) for path in sorted(directory.glob(f"{TRIALS}/*/{FAILED}"))]
    study = collect(_read_study(directory / STUDY))
    inputs = collect(read_manifest(directory / MANIFEST)) if has_inputs(study) else None
    if inputs is not None and (directory / SAMPLED_OF).is_file():
        inputs = replace(inputs, listed=int((directory / SAMPLED_OF).read_text()))
    failures = {one.trial for one in failed}
    paths = [p for p in sorted(directory.glob(f"{TRIALS}/*/")) if p.name not in failures]
    files = [trial_files(path) for path in paths]
    files = [one for one in files if (one.directory / VERIFIED).exists()]
    read = read_trials(files, inputs, processes=processes, progress=progress)
    read = read or [Read([], [], measure([], [], read_samples([]).rows, inputs), [])]
    parts = [part for one in read for part in one.parts]
    logs = [log for one in read for log in one.logs]
    set_server_titles(
        (str(part.factors.get("engine")), str(version))
        for part in parts
        for name, version in (part.conditions.get("versions") or {}).items()
        if str(name).partition(".")[0] == "server"
    )
    if not parts and not failed:
        raise ResultError(
            f"{directory}: no trial is complete yet (expected trials/*/{VERIFIED}); "
            "run the study first (`storewise run STUDY`)"
        )
    warnings += [warning for one in read for warning in one.warnings]
    measured = concatenate([batch.measured for batch in read])
    trials, factors = _trial_table(measured.trials, {part.trial: part.factors for part in parts})
    quarantined = collect(read_quarantine(directory / QUARANTINE)) + refused_by_workers(parts)
    warnings += [*missing_parts(parts, logs), *mixed(parts), *session_warnings(parts)]
    warnings += job_warnings(parts)
    lacking = 0
    expected = expected_trials(study)
    if study and expected is None:
        path = directory / STUDY
        warnings.append(no_study(f"{path} is not a study that this version of Storewise reads"))
    if expected is not None:
        stored = {part.trial: part.conditions for part in parts}
        missing = read_left_out(directory / LEFT_OUT)
        left_out = trials_of(missing, expected)
        lacking = len(set(expected) - set(stored) - left_out)
        warnings += left_out_warnings(missing, expected, stored)
        warnings += stale_warnings(expected, stored, failures | left_out)
    references = (
        collect(_read_references(directory / REFERENCES)) if study.get("references") else []
    )
    return Results(
        directory=directory,
        study=study,
        measured=measured,
        trials=trials,
        factors=factors,
        parts=parts,
        logs=logs,
        failed=failed,
        inputs=inputs,
        quarantined=quarantined,
        warnings=sorted(set(warnings)),
        lacking=lacking,
        references=references,
        attempts=read_attempts(directory, {part.trial for part in parts}),
    )


def _read_study(path: Path) -> tuple[dict[str, Any], list[StudyWarning]]:
    try:
        study = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(study, dict):
            return study, []
        problem = "not a JSON object"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"cut short or changed: {error}"
    return {}, [no_study(f"{path}: {problem}")]


#: Further exceptions that a damaged file may cause.
_NO_REFERENCE = (AttributeError, RecursionError, ConfigError)


def _read_references(path: Path) -> tuple[list[Reference], list[StudyWarning]]:
    """The published studies stored with the results, up to the first unreadable one."""
    references = []
    try:
        for name, texts in json.loads(path.read_text(encoding="utf-8")).items():
            where = f"{path}: {name}"
            references.append(parse_reference(name, texts["yaml"], texts["csv"], where))
    except (OSError, ValueError, LookupError, TypeError, *_NO_REFERENCE) as error:
        text = f"published figures cannot be shown: {error}"
        remedy = "run `snakemake analysis` with the study's file, which writes them again"
        return references, [StudyWarning("no_reference", "", text, remedy)]
    return references, []


_ORDER = ["engine", *OF_SERVERS, "volume", "workers", "processes", "threads"]
_ORDER += ["consistency", "index"]


def _trial_table(
    trials: pd.DataFrame, factors: Mapping[str, Mapping[str, Any]]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The trials with a column for each factor, and these columns' names.

    `factors` has the levels of each trial, with the types that the study gave them.
    """
    names = sorted({name for levels in factors.values() for name in levels})
    names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    columns = {}
    for name in names:
        levels = [factors[trial].get(name) for trial in trials["trial"]]
        # Values that pandas cannot group by become text.
        levels = [json.dumps(one) if isinstance(one, list | dict) else one for one in levels]
        column = f"{FACTOR_PREFIX}{name}" if name in CORE.names else name
        columns[column] = pd.Series(levels, dtype=object).infer_objects()
    table = trials[["trial", "repeat"]].assign(**columns)
    return table.assign(phases=trials["phases"], host=trials["host"]), tuple(columns)
