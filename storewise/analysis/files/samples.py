"""The samples of some trials as one table.

A study of 500 trials with 100 workers has 100,000 small files, and opening them takes longer than
reading their rows. So a trial's parts are also in a pack; what is in no pack is read file by file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import Part, TrialFiles
from storewise.errors import ResultError
from storewise.metrics.pack import Pack, read_pack
from storewise.metrics.schema import CORE, read_part

#: Columns of the schema except `unit`, which follows from the metric.
COLUMNS = [name for name in CORE.names if name != "unit"]
_SCHEMA = pa.schema([CORE.field(name) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Samples:
    """Parts of trials and all their rows: `rows` has CORE's columns except `unit`. `totals` maps
    (trial, phase) to the stored sums of its logs, as payloads by tag."""

    parts: Sequence[Part]
    rows: pa.Table
    warnings: Sequence[StudyWarning]
    totals: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)


def read_samples(trials: Sequence[TrialFiles]) -> Samples:
    """Read the parts of some trials; unreadable parts are left out, with a warning."""
    parts: list[Part] = []
    tables = [_SCHEMA.empty_table()]
    totals: dict[tuple[str, str], Mapping[str, str]] = {}
    warnings: list[StudyWarning] = []
    known: dict[tuple[str, str], Any] = {}
    for trial in trials:
        conditions: dict[str, Mapping[str, Any]] = {}
        if (pack := _pack(trial)) is not None:
            conditions |= pack.conditions
            tables.append(pack.rows)
            totals |= {(trial.trial, phase): sums for phase, sums in pack.totals.items()}
        for name in trial.parts:
            try:
                if name not in conditions:
                    rows, conditions[name] = _read(trial, name)
                    tables.append(rows)
            except ResultError as error:
                remedy = "delete the file and measure again"
                warnings.append(StudyWarning("unreadable_part", trial.trial, str(error), remedy))
        for name, (phase, worker, node) in trial.parts.items():
            if name in conditions:
                shared = _shared(conditions[name], known)
                place = (trial.directory, name, trial.trial, phase, worker)
                parts.append(Part(*place, shared, node))
    every = [one.select(COLUMNS).replace_schema_metadata(None).cast(_SCHEMA) for one in tables]
    return Samples(parts, pa.concat_tables(every), warnings, totals)


def _pack(trial: TrialFiles) -> Pack | None:
    of_workers = [name for name, (_, worker, _) in trial.parts.items() if worker is not None]
    try:
        return read_pack(trial.directory, of_workers, [log.name for log in trial.logs])
    except ResultError:
        return None  # the files beside it have all that is in it


def _read(trial: TrialFiles, name: str) -> tuple[pa.Table, dict[str, Any]]:
    path = trial.directory / name
    rows, conditions = read_part(path)
    if rows.num_rows and rows["trial"].unique().to_pylist() != [trial.trial]:
        raise ResultError(f"{path}: its rows belong to another trial than its directory")
    return rows, conditions


def _shared(conditions: Mapping[str, Any], known: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The conditions with equal values of several parts as one shared object.

    Parts of a trial differ in little: copies would take ten times the memory.
    """
    return {
        key: known.setdefault((key, repr(value)), value)
        if isinstance(value, dict | list)
        else value
        for key, value in conditions.items()
    }
