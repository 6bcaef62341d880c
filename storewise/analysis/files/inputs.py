"""Inputs, quarantined files and failed trials of a study."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storewise.analysis.common.text import some_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.documents import KINDS, Kind
from storewise.errors import END_NOT_VISIBLE, NOT_VISIBLE
from storewise.workloads.registry import WORKLOADS, workload

_WHOLE = "compare the number of files and queries with what was searched"
#: The format of manifests that name none.
M10 = "m10"
#: Most equal files that a warning names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class InputTotals:
    """Sums over the manifest; `documents` is None if a file's counts are unknown.

    `bytes` is the size of the files on disk, `kinds` the documents by kind; `listed` is the number
    of files from which these are a sample, 0 if there is no sampling; `format` is the text of their
    `InputFormat`.
    """

    files: int
    bytes: int
    documents: int | None
    kinds: Mapping[str, int] = field(default_factory=dict)
    listed: int = 0
    format: str = M10


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An input file that was left out, and why; empty strings where no position is known."""

    path: str
    line: str
    offset: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """A trial that failed for good, as its ``failed.json`` has it."""

    trial: str
    repeat: int | None
    factors: Mapping[str, Any]
    reason: str
    log_tail: str
    attempts: int
    host_fault: bool = False
    """Whether its host failed, not its store: the next run repeats the trial."""


def has_inputs(study: Mapping[str, Any]) -> bool:
    """Whether a stored study's workload reads inputs; an unknown workload may do so."""
    name = study.get("workload", "alignments")
    return name not in WORKLOADS or workload(name).reads_inputs


def read_manifest(path: Path) -> tuple[InputTotals | None, list[StudyWarning]]:
    """Totals of a manifest, with a warning about equal files; None if it is unreadable."""
    try:
        table = pq.read_table(path)
        # Equal files are stored once.
        once = pc.is_null(table["duplicate_of"])
        # Tables without any hit are often empty files.
        copies = pc.and_(pc.invert(once), pc.greater(table["bytes"], 0))
        warnings = _equal_files(table.filter(copies))
        table = table.filter(once)
        ends = table["end"].to_pylist() if "end" in table.column_names else []
        if NOT_VISIBLE in ends:
            warnings.append(StudyWarning("end_not_visible", "", END_NOT_VISIBLE, _WHOLE))
        warnings += _input_warnings(table.filter(pc.is_valid(table["warning"])))
        queries, alignments = _sum(table, "queries"), _sum(table, "alignments")
        kinds: dict[str, int] = {}
        if queries is not None and alignments is not None:
            kinds = {k.table: queries if k is Kind.TASKS else alignments for k in KINDS}
        size = pc.sum(table["bytes"], skip_nulls=False).as_py() or 0
        formats = table["format"].to_pylist() if "format" in table.column_names else []
        form = next(filter(None, formats), M10)
        totals = InputTotals(table.num_rows, size, _sum(table, "documents"), kinds, format=form)
        return totals, warnings
    except (OSError, KeyError, pa.ArrowException) as error:
        remedy = "sizes are not compared with the inputs; run `storewise manifest` and the analysis"
        return None, [StudyWarning("no_manifest", "", f"{path}: {error}", remedy)]


def _equal_files(table: pa.Table) -> list[StudyWarning]:
    if not table.num_rows:
        return []
    files = table.select(["path", "duplicate_of"]).to_pylist()
    names = some_of([f"{file['path']} = {file['duplicate_of']}" for file in files], _NAMED)
    text = f"identical input files, of which each was used once: {names}"
    remedy = "remove the copies, or repeat the searches that should differ"
    return [StudyWarning("equal_files", "", text, remedy)]


def _input_warnings(table: pa.Table) -> list[StudyWarning]:
    """The manifest's warnings about complete files; the first of each kind."""
    paths: dict[str, list[str]] = {}
    for file in table.select(["path", "warning"]).to_pylist():
        paths.setdefault(file["warning"], []).append(file["path"])
    remedy = "look at the command line in the file's first line"
    return [
        StudyWarning("input_warning", "", f"{some_of(files, 1)}: {text}", remedy)
        for text, files in paths.items()
    ]


def _sum(table: pa.Table, name: str) -> int | None:
    """The sum of a column; None if a value is missing: a partial sum would look like the total."""
    return None if table[name].null_count else int(pc.sum(table[name], min_count=0).as_py())


def read_quarantine(path: Path) -> tuple[list[Quarantined], list[StudyWarning]]:
    """The files of a ``quarantine.tsv``; a study without one quarantined nothing."""
    if not path.is_file():
        return [], []
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            files = [
                Quarantined(*(row[name] or "" for name in ("path", "line", "offset", "reason")))
                for row in csv.DictReader(file, delimiter="\t")
            ]
    except (OSError, KeyError, csv.Error) as error:
        text = f"{path}: not a table with the columns path, line, offset and reason: {error!r}"
        remedy = "delete it and make the manifest again (`snakemake -R manifest`)"
        return [], [StudyWarning("no_manifest", "", text, remedy)]
    if not files:
        return [], []
    text = f"input files that were left out because they are not complete: {len(files)}"
    remedy = "see the list of quarantined files; search them again or remove them from the inputs"
    return files, [StudyWarning("quarantined", "", text, remedy)]


def read_failed(path: Path) -> tuple[FailedTrial, list[StudyWarning]]:
    """A ``failed.json``; one that cannot be read still marks its trial as failed."""
    trial = path.parent.name
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        failed = FailedTrial(
            trial=trial,
            repeat=data.get("repeat"),
            factors=dict(data.get("factors") or {}),
            reason=str(data["reason"]),
            log_tail=str(data.get("log_tail") or ""),
            attempts=int(data.get("attempts") or 1),
            host_fault=bool(data.get("host_fault")),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        failed = FailedTrial(trial, None, {}, f"unknown: {path} is not readable: {error}", "", 1)
    text = f"failed after {failed.attempts} attempts: {failed.reason}"
    remedy = "see its log; `storewise run --retry-failed` measures it again"
    return failed, [StudyWarning("failed_trial", trial, text, remedy)]
