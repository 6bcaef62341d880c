"""What a trial has to do, and at which rate: documents, operations, and the seconds they take.

What earlier results of the study say comes first; what nobody has measured is a stated default.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storewise import layout
from storewise.errors import StorewiseError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.parse.remote import stats
from storewise.study.inputs import Inputs
from storewise.study.study import Study
from storewise.study.trial import Phase, Trial
from storewise.workloads.registry import workload

#: Bytes of SSEARCH output as text per document: those of the bundled sample.
TEXT_PER_DOCUMENT = 163.0
#: Bytes of text per byte of a compressed file: gzip's on the bundled sample.
COMPRESSION = 6.6
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Files whose sizes stand for all.
_LOOKED_AT = 200
#: How far off a default may be, either way.
DEFAULT_FACTOR = 4.0
#: ... a rate that was measured with other levels, or once only,
MEASURED_FACTOR = 2.0
#: ... and a number of documents that follows from sizes.
SIZE_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, the range in which it is expected, and where it is from."""

    mean: float
    low: float
    high: float
    source: str

    @classmethod
    def within(cls, mean: float, factor: float, source: str) -> Amount:
        """A number that may be so many times too high or too low."""
        return cls(mean, mean / factor, mean * factor, source)

    @classmethod
    def exact(cls, number: float, source: str = "") -> Amount:
        return cls(number, number, number, source)

    @classmethod
    def total(cls, amounts: Sequence[Amount]) -> Amount:
        """A sum, all at their lowest or highest at once."""
        mean, low, high = (
            math.fsum(getattr(amount, name) for amount in amounts)
            for name in ("mean", "low", "high")
        )
        return cls(mean, low, high, "")

    def times(self, factor: float) -> Amount:
        return Amount(self.mean * factor, self.low * factor, self.high * factor, self.source)

    def over(self, rate: Amount) -> Amount:
        """The seconds that so much takes at a rate per second."""
        return Amount(self.mean / rate.mean, self.low / rate.high, self.high / rate.low, "")


#: What one trial writes or answers, where no result of the study tells. Published: MongoDB and Riak
#: on one node wrote 4,142 and 3,291 documents a second (config/references/niec2014.csv).
DEFAULT_RATES = {
    "documents_per_s": Amount.within(4000, DEFAULT_FACTOR, "default"),
    "operations_per_s": Amount.within(2000, DEFAULT_FACTOR, "default"),
}


def documents_of(study: Study, results: Path) -> Amount:
    """The documents of a study's inputs: counted by its manifest, else by the sizes of the files,
    else by the files and bytes of `corpus`."""
    counted = _by_manifest(study, results)
    if counted is not None:
        return counted
    paths: Sequence[str] = ()
    why = "they are searched first"
    if study.inputs.paths:
        try:
            paths = list_inputs(study.inputs.paths)
            files, each = len(paths), _text_of(paths)
        except StorewiseError as error:
            # Who asks what it will cost need not have the data yet.
            paths, why = (), str(error).partition(";")[0]
    if paths:
        source = f"{TEXT_PER_DOCUMENT:g} bytes of text each, from the sizes of the files"
    else:
        files, each = study.corpus.files, study.corpus.bytes / study.corpus.files
        source = (
            f"{TEXT_PER_DOCUMENT:g} bytes of text each, from files of {each / 1e6:.3g} MB as in "
            f"`corpus`, as the inputs cannot be looked at: {why}"
        )
    taken = _sampled(study, files, each)
    documents = taken * each / TEXT_PER_DOCUMENT
    return Amount.within(documents, SIZE_FACTOR, f"{taken:,.0f} files, {source}")


def _by_manifest(study: Study, results: Path) -> Amount | None:
    """What the manifest of these very inputs counted."""
    kept = results / layout.STUDY
    try:
        if kept.is_file():
            stored = json.loads(kept.read_text(encoding="utf-8"))["inputs"]
            if Inputs.model_validate(stored) != study.inputs:
                return None
        table = pq.read_table(results / layout.MANIFEST)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None  # what is wrong with them is the analysis's to say
    if "duplicate_of" in table.column_names:
        table = table.filter(pc.is_null(table["duplicate_of"]))  # equal files are stored once
    if "documents" not in table.column_names or not len(table):
        return None
    counts = table["documents"]
    if counts.null_count:
        return None  # `digest: sampled` counts nothing
    return Amount.exact(float(pc.sum(counts).as_py()), f"the manifest of {len(counts):,} files")


def _text_of(paths: Sequence[str]) -> float:
    """Mean bytes of text of a file, from at most `_LOOKED_AT` of them, evenly taken."""
    chosen = paths[:: max(1, -(-len(paths) // _LOOKED_AT))]
    objects = stats(chosen)
    sizes = []
    for path in chosen:
        if is_remote(path):
            if path not in objects:
                continue  # it has gone since
            size = objects[path].size
        else:
            try:
                size = os.stat(path).st_size  # noqa: PTH116 - as the listing: strings
            except OSError:
                continue
        sizes.append(size * (COMPRESSION if path.endswith(_COMPRESSED) else 1.0))
    return math.fsum(sizes) / len(sizes) if sizes else 0.0


def _sampled(study: Study, files: int, each: float) -> float:
    """How many of the files the study takes."""
    sample = study.inputs.sample
    if sample is None:
        return files
    if sample.share is not None:
        return files * sample.share
    if sample.files is not None:
        return min(files, sample.files)
    return min(files, (sample.bytes or 0) / each) if each else files


class Rates:
    """Rates of earlier results of a study (``analysis/summary.csv``)."""

    def __init__(self, results: Path, factors: Iterable[str]) -> None:
        self._rows: dict[tuple[str, str, str], list[_Row]] = {}
        #: What was looked up before: thousands of trials share engines, levels and phases.
        self._known: dict[tuple[object, ...], Amount] = {}
        self._factors: tuple[str, ...] = ()
        try:
            summary = results / layout.ANALYSIS / layout.SUMMARY
            with summary.open(encoding="utf-8", newline="") as file:
                rows = csv.DictReader(file)
                self._factors = tuple(f for f in factors if f in (rows.fieldnames or ()))
                for row in rows:
                    self._take(row)
        except OSError:
            pass  # nothing was measured yet

    def _take(self, row: Mapping[str, str]) -> None:
        mean, low, high = (_number(row.get(name)) for name in ("mean", "low", "high"))
        if row.get("measure") not in DEFAULT_RATES or not mean > 0:
            return
        levels = tuple(row[name] for name in self._factors)
        key = (row.get("engine") or "", row.get("phase") or "", row["measure"])
        self._rows.setdefault(key, []).append(_Row(levels, row.get("step") or "", mean, low, high))

    def of(self, trial: Trial, phase: str, step: int, measure: str) -> Amount:
        """A rate of a phase: measured with the trial's own levels, else with others of its engine,
        else the default."""
        levels = tuple(str(trial.factors.get(name, "")) for name in self._factors)
        key = (trial.engine, phase, measure)
        place = (*key, step, levels)
        if place not in self._known:
            self._known[place] = _rate(self._rows.get(key, []), levels, str(step), measure)
        return self._known[place]


@dataclass(frozen=True, slots=True)
class _Row:
    """One measured rate, the levels that it is of, and its interval (NaN where it has none)."""

    levels: tuple[str, ...]
    step: str
    mean: float
    low: float
    high: float


def _rate(rows: Sequence[_Row], levels: tuple[str, ...], step: str, measure: str) -> Amount:
    rows = [row for row in rows if row.step == step] or rows
    if not rows:
        return DEFAULT_RATES[measure]
    same = [row for row in rows if row.levels == levels]
    rows = same or rows
    middle = geometric_mean(row.mean for row in rows)
    # An interval is of its own levels only, and a single repeat has none.
    known = bool(same) and all(row.low > 0 and row.high > 0 for row in rows)
    factor = 1.0 if known else MEASURED_FACTOR
    low = min(row.low if row.low > 0 else row.mean for row in rows) / factor
    high = max(row.high if row.high > 0 else row.mean for row in rows) * factor
    source = "measured" if same else "measured with other levels"
    if not known:
        source += f", {factor:g} times more or less"
    return Amount(middle, min(low, middle), max(high, middle), source)


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


@dataclass(frozen=True, slots=True)
class Work:
    """The seconds of a trial's phases, and the rates they rest on by what they are of."""

    seconds: Amount
    rates: Mapping[str, Amount]


def work_of(trial: Trial, documents: Amount | None, rates: Rates) -> Work:
    """The time of all phases of a trial; `documents` are those of the study's inputs."""
    used: dict[str, Amount] = {}
    steps = [
        _seconds(trial, phase, step, override, documents, rates, used)
        for phase in trial.phases
        for step, override in enumerate(phase.step_overrides())
    ]
    return Work(Amount.total(steps), used)


def _seconds(
    trial: Trial,
    phase: Phase,
    step: int,
    override: Mapping[str, Any],
    documents: Amount | None,
    rates: Rates,
    used: dict[str, Amount],
) -> Amount:
    """The time of one step, in s; the rate that it rests on is added to `used`."""
    known = workload(trial.workload)
    spec = known.phases[phase.name]
    values = {**phase.params, **override}
    params = spec.params.model_validate(
        {key: value for key, value in values.items() if key in spec.params.model_fields}
    )
    if params.search is not None:
        seconds = params.search.steps * params.search.seconds
        return Amount(seconds, seconds / 2, seconds, "")  # it ends when it has found the rate
    rows = getattr(params, "rows", None)
    if spec.loads or (rows is not None and params.operations is None):
        made = known.documents_made(phase.params) if spec.loads else rows
        amount = Amount.exact(made) if made is not None else documents
        assert amount is not None, "a workload has inputs or makes its documents"
        share = 1.0 if made is not None else trial.volume * (1 - getattr(params, "leave", 0.0))
        rate = used[phase.name] = rates.of(trial, phase.name, step, "documents_per_s")
        return amount.times(share).over(rate)
    most = params.seconds if params.seconds is not None else math.inf
    if params.operations is None:
        assert params.seconds is not None, "a phase has an end"
        return Amount.exact(most)
    number = params.operations * len(getattr(params, "selectivity_pct", (1,)))
    if params.rate is not None:  # an open loop
        return Amount.exact(min(most, number / params.rate))
    rate = used[phase.name] = rates.of(trial, phase.name, step, "operations_per_s")
    time = Amount.exact(number).over(rate)
    return Amount(min(most, time.mean), min(most, time.low), min(most, time.high), "")
