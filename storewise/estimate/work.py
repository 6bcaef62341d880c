"""What a trial has to do, and at which rate: documents, operations, and the seconds they take.

What earlier results of the study say comes first; what nobody has measured is a stated default.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

from storewise import layout
from storewise.analysis.common.frames import grouped
from storewise.analysis.files.inputs import read_manifest
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.parse.remote import stats
from storewise.study.inputs import Inputs
from storewise.study.prices import PUBLISHED
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
#: The source of a rate that nobody has measured.
DEFAULT = "default"
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
    "documents_per_s": Amount.within(4000, DEFAULT_FACTOR, DEFAULT),
    "operations_per_s": Amount.within(2000, DEFAULT_FACTOR, DEFAULT),
}


@dataclass(frozen=True, slots=True)
class Probe:
    """Rates that were tried out on this machine a moment ago, with one engine."""

    engine: str
    rates: Mapping[str, float]
    """Of the keys of DEFAULT_RATES."""

    def rate(self, engine: str, phase: str, measure: str) -> Amount:
        """The rate to expect of an engine: others are less sure than the one that was tried."""
        if measure not in self.rates or (measure == "operations_per_s" and phase != "read"):
            return DEFAULT_RATES[measure]  # a question is no read by id
        other = engine != self.engine
        factor = DEFAULT_FACTOR if other else MEASURED_FACTOR
        source = f"tried out with {self.engine} on this machine, {factor:g} times more or less"
        return Amount.within(self.rates[measure], factor, source)


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
        corpus = study.corpus or PUBLISHED
        files, each = corpus.files, corpus.bytes / corpus.files
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
    except (OSError, ValueError, KeyError, TypeError):
        return None  # what is wrong with it is the analysis's to say
    counted, _ = read_manifest(results / layout.MANIFEST)
    # `digest: sampled` counts no documents.
    if counted is None or counted.documents is None or not counted.files:
        return None
    return Amount.exact(float(counted.documents), f"the manifest of {counted.files:,} files")


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

    def __init__(self, results: Path, factors: Iterable[str], probe: Probe | None = None) -> None:
        self._probe = probe or Probe("", {})
        path = results / layout.ANALYSIS / layout.SUMMARY
        try:
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
        except (OSError, ValueError):
            table = pd.DataFrame()  # nothing was measured yet, or what is wrong is not ours to say
        self._factors = [name for name in factors if name in table]
        names = dict.fromkeys(["engine", "phase", "measure", "step", *self._factors, *_FIGURES])
        table = table.reindex(columns=list(names), fill_value="")
        for name in _FIGURES:
            table[name] = pd.to_numeric(table[name], errors="coerce")
        table = table[table["measure"].isin(DEFAULT_RATES) & (table["mean"] > 0)]
        self._tables = dict(grouped(table, ["engine", "phase", "measure"]))
        #: What was looked up before: thousands of trials share engines, levels and phases.
        self._known: dict[tuple[object, ...], Amount] = {}

    def of(self, trial: Trial, phase: str, step: int, measure: str) -> Amount:
        """A rate of a phase: measured with the trial's own levels, else with others of its engine,
        else tried out on this machine, else the default."""
        levels = {name: str(trial.factors.get(name, "")) for name in self._factors}
        key = (trial.engine, phase, measure)
        place = (*key, step, *levels.values())
        if place not in self._known:
            table = self._tables.get(key)
            self._known[place] = (
                self._rate_without_results(trial, phase, measure)
                if table is None
                else _rate(table, levels, str(step))
            )
        return self._known[place]

    def _rate_without_results(self, trial: Trial, phase: str, measure: str) -> Amount:
        """The rate if no earlier result has it: measured briefly on this machine, else the default.
        If the store waits for the disk after each document, it is the rate of a slow disk."""
        store = engine(trial.engine)
        level = store.level(trial.consistency)
        slow = store.slow_levels.get(level)
        if slow is None:
            return self._probe.rate(trial.engine, phase, measure)
        spec = workload(trial.workload).phases[phase]
        if not (spec.loads or spec.changes):
            return self._probe.rate(trial.engine, phase, measure)
        return Amount.within(
            slow * DEFAULT_FACTOR, DEFAULT_FACTOR, slow_disk_note(trial.engine, level)
        )


def slow_disk_note(name: str, level: str) -> str:
    """A warning that the store waits for the disk after each document at this consistency level."""
    store = engine(name)
    return (
        f"{store.title} waits for the disk after each document at level {level}: about "
        f"{store.slow_levels[level]:g} documents/s on a slow disk"
    )


#: Of a rate its mean and its interval (NaN where it has none).
_FIGURES = ("mean", "low", "high")


def _rate(table: pd.DataFrame, levels: Mapping[str, str], step: str) -> Amount:
    """The rate of a step at some levels, of the rows of its engine, phase and measure."""
    of_step = table[table["step"] == step]
    rows = of_step if len(of_step) else table
    same = rows[(rows[list(levels)] == pd.Series(levels, dtype=object)).all(axis=1)]
    rows = same if len(same) else rows
    middle = geometric_mean(rows["mean"])
    # An interval is of its own levels only, and a single repeat has none.
    known = len(same) > 0 and bool((rows[["low", "high"]] > 0).all(axis=None))
    factor = 1.0 if known else MEASURED_FACTOR
    low = float(rows["low"].where(rows["low"] > 0, rows["mean"]).min()) / factor
    high = float(rows["high"].where(rows["high"] > 0, rows["mean"]).max()) * factor
    source = "measured" if len(same) else "measured with other levels"
    if not known:
        source += f", {factor:g} times more or less"
    return Amount(middle, min(low, middle), max(high, middle), source)


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
