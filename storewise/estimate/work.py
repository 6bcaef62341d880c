"""What a trial has to do, and at which rate: documents, operations, and the seconds they take.

What earlier results of the study say comes first; what nobody has measured is a stated default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

from storewise import layout
from storewise.analysis.files.inputs import read_manifest
from storewise.analysis.model.columns import ALL
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.parse.remote import stats
from storewise.study.prices import PUBLISHED
from storewise.study.study import Study
from storewise.study.trial import Phase, Trial
from storewise.workloads.registry import workload

#: Bytes of SSEARCH output as text per document, and of text per byte of a compressed file: those
#: of the bundled sample.
TEXT_PER_DOCUMENT, COMPRESSION = 163.0, 6.6
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Files whose sizes stand for all.
_LOOKED_AT = 200
#: How far off, either way, may be a default; a rate that was measured with other levels, or once
#: only; and a number of documents that follows from sizes.
DEFAULT_FACTOR, MEASURED_FACTOR, SIZE_FACTOR = 4.0, 2.0, 1.5


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, the range in which it is expected, and where it is from."""

    mean: float
    low: float
    high: float
    source: str = ""

    @classmethod
    def within(cls, mean: float, factor: float, source: str = "") -> Amount:
        """A number that may be so many times too high or too low."""
        return cls(mean, mean / factor, mean * factor, source)

    @classmethod
    def exact(cls, number: float, source: str = "") -> Amount:
        return cls(number, number, number, source)

    @classmethod
    def total(cls, amounts: Sequence[Amount]) -> Amount:
        """A sum, all at their lowest or highest at once."""
        return cls(
            math.fsum(one.mean for one in amounts),
            math.fsum(one.low for one in amounts),
            math.fsum(one.high for one in amounts),
        )

    def times(self, factor: float) -> Amount:
        return Amount(self.mean * factor, self.low * factor, self.high * factor, self.source)

    def over(self, rate: Amount) -> Amount:
        """The seconds that so much takes at a rate per second."""
        return Amount(self.mean / rate.mean, self.low / rate.high, self.high / rate.low)

    def text(self, shown: Callable[[float], str] = "{:,.0f}".format) -> str:
        """``12.50 (8.00 to 20.00)``, or the number alone where there is no range."""
        if math.isclose(self.low, self.high):
            return shown(self.mean)
        return f"{shown(self.mean)} ({shown(self.low)} to {shown(self.high)})"


#: The source of a rate that nobody has measured.
DEFAULT = (
    f"a default for any engine, {DEFAULT_FACTOR:g} times more or less, as nothing was measured yet"
)
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
        factor = DEFAULT_FACTOR if engine != self.engine else MEASURED_FACTOR
        source = f"tried out with {self.engine} on this machine, {factor:g} times more or less"
        return Amount.within(self.rates[measure], factor, source)


def documents_of(study: Study, results: Path) -> Amount:
    """The documents of a study's inputs: counted by its manifest, else by the sizes of the files,
    else by the files and bytes of `corpus`."""
    counted = _by_manifest(study, results)
    if counted is not None:
        return counted
    corpus = study.corpus or PUBLISHED
    files, each, known = (
        corpus.files,
        corpus.bytes / corpus.files,
        "`corpus`: they are searched first",
    )
    if study.inputs.paths:
        try:
            paths = list_inputs(study.inputs.paths)
            files, each, known = len(paths), _text_of(paths), "the sizes of the files"
        except StorewiseError as error:
            # Who asks what it will cost need not have the data yet.
            why = str(error).partition(";")[0]
            known = f"`corpus`, as the inputs cannot be looked at: {why}"
    sample = study.inputs.sample
    if sample is not None and sample.share is not None:
        taken = files * sample.share
    elif sample is not None:
        taken = min(files, sample.files or (sample.bytes or 0) / max(each, 1.0))
    else:
        taken = files
    source = f"{taken:,.0f} files of {each / 1e6:.3g} MB, {TEXT_PER_DOCUMENT:g} bytes a document"
    source += f", from {known}"
    return Amount.within(taken * each / TEXT_PER_DOCUMENT, SIZE_FACTOR, source)


def _by_manifest(study: Study, results: Path) -> Amount | None:
    """What the manifest of these very inputs counted."""
    kept = results / layout.STUDY
    try:
        if kept.is_file():
            stored = Study.model_validate_json(kept.read_text(encoding="utf-8"))
            if stored.inputs != study.inputs:
                return None
    except (OSError, ValueError):
        return None  # what is wrong with it is the analysis's to say
    counted, _ = read_manifest(results / layout.MANIFEST)
    # `digest: sampled` counts no documents.
    if counted is None or counted.documents is None or not counted.files:
        return None
    return Amount.exact(float(counted.documents), f"the manifest of {counted.files:,} files")


def _text_of(paths: Sequence[str]) -> float:
    """Mean bytes of text of a file, from at most `_LOOKED_AT` of them, evenly taken."""
    chosen = paths[:: max(1, -(-len(paths) // _LOOKED_AT))]
    sizes = {path: float(one.size) for path, one in stats(chosen).items()}
    for path in chosen:
        if not is_remote(path) and Path(path).is_file():
            sizes[path] = float(Path(path).stat().st_size)
    texts = [n * (COMPRESSION if path.endswith(_COMPRESSED) else 1) for path, n in sizes.items()]
    return math.fsum(texts) / len(texts) if texts else 0.0


class Rates:
    """Rates of earlier results of a study (``analysis/summary.csv``), else what to expect."""

    def __init__(self, results: Path, probe: Probe | None = None) -> None:
        self._probe = probe or Probe("", {})
        try:
            path = results / layout.ANALYSIS / layout.SUMMARY
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
            figures = table[["mean", "low", "high"]].apply(pd.to_numeric, errors="coerce")
            table = table.assign(**figures)
            table = table[table["measure"].isin(DEFAULT_RATES) & (table["mean"] > 0)]
            table = table[table["operation"] == ALL]
            places = table.groupby(["engine", "phase", "measure"])
            self._tables = {(str(e), str(p), str(m)): rows for (e, p, m), rows in places}
        except (OSError, ValueError, KeyError):
            self._tables = {}  # nothing was measured yet, or what is wrong is not ours to say
        #: What was looked up before: thousands of trials share engines, levels and phases.
        self._known: dict[tuple[object, ...], Amount] = {}

    def of(self, trial: Trial, phase: str, step: int, measure: str) -> Amount:
        """A rate of a phase: measured with the trial's own levels, else with others of its engine,
        else tried out on this machine, else the default."""
        table = self._tables.get((trial.engine, phase, measure))
        if table is None:
            return self._expected(trial, phase, measure)
        levels = {name: str(one) for name, one in trial.factors.items() if name in table}
        place = (phase, measure, step, *levels.values())
        if place not in self._known:
            self._known[place] = _measured(table, levels, str(step))
        return self._known[place]

    def _expected(self, trial: Trial, phase: str, measure: str) -> Amount:
        """The rate if no earlier result has it: measured briefly on this machine, else the default.
        If the store waits for the disk after each document, it is the rate of a slow disk."""
        store = engine(trial.engine)
        level = store.level(trial.consistency)
        if level in store.slow_levels:
            spec = workload(trial.workload).phases[phase]
            if spec.loads or spec.changes:
                rate = store.slow_levels[level] * DEFAULT_FACTOR
                return Amount.within(rate, DEFAULT_FACTOR, slow_disk_note(trial.engine, level))
        return self._probe.rate(trial.engine, phase, measure)


def slow_disk_note(name: str, level: str) -> str:
    """A warning that the store waits for the disk after each document at this consistency level."""
    store = engine(name)
    return (
        f"{store.title} waits for the disk after each document at level {level}: about "
        f"{store.slow_levels[level]:g} documents/s on a slow disk"
    )


def _measured(table: pd.DataFrame, levels: Mapping[str, str], step: str) -> Amount:
    """The rate of a step at some levels, of the rows of its engine, phase and measure."""
    of_step = table[table["step"] == step]
    rows = of_step if len(of_step) else table
    same = rows[(rows[list(levels)] == pd.Series(levels, dtype=object)).all(axis=1)]
    rows = same if len(same) else rows
    middle = geometric_mean(rows["mean"])
    source = "measured" if len(same) else "measured with other levels"
    # An interval is of its own levels only, and a single repeat has none.
    known = len(same) > 0 and bool((rows[["low", "high"]] > 0).all(axis=None))
    factor = 1.0 if known else MEASURED_FACTOR
    if not known:
        source += f", {factor:g} times more or less"
    low = float(rows["low"].where(rows["low"] > 0, rows["mean"]).min()) / factor
    high = float(rows["high"].where(rows["high"] > 0, rows["mean"]).max()) * factor
    return Amount(middle, min(low, middle), max(high, middle), source)


@dataclass(frozen=True, slots=True)
class Work:
    """The seconds of a trial's phases, and the rates they rest on by phase."""

    seconds: Amount
    rates: Mapping[str, Amount]


def work_of(trial: Trial, documents: Amount | None, rates: Rates) -> Work:
    """The time of all phases of a trial; `documents` are those of the study's inputs."""
    seconds, used = [], {}
    for phase in trial.phases:
        for number, override in enumerate(phase.step_overrides()):
            step = _step(trial, phase, override, documents)
            if isinstance(step, Amount):
                seconds.append(step)
                continue
            amount, measure, most = step
            rate = used[phase.name] = rates.of(trial, phase.name, number, measure)
            time = amount.over(rate)
            seconds.append(Amount(min(most, time.mean), min(most, time.low), min(most, time.high)))
    return Work(Amount.total(seconds), used)


def _step(
    trial: Trial, phase: Phase, override: Mapping[str, Any], documents: Amount | None
) -> Amount | tuple[Amount, str, float]:
    """The time of one step in s; where it rests on a rate what there is to do, the measure of the
    rate, and the seconds that it takes at most."""
    known = workload(trial.workload)
    spec = known.phases[phase.name]
    values = {**phase.params, **override}
    params = spec.params.model_validate(
        {key: value for key, value in values.items() if key in spec.params.model_fields}
    )
    if params.search is not None:
        seconds = params.search.steps * params.search.seconds
        return Amount(seconds, seconds / 2, seconds)  # it ends when it has found the rate
    rows = getattr(params, "rows", None)
    if spec.loads or (rows is not None and params.operations is None):
        made = known.documents_made(phase.params) if spec.loads else rows
        if made is not None:
            return Amount.exact(made), "documents_per_s", math.inf
        assert documents is not None, "a workload has inputs or makes its documents"
        share = trial.volume * (1 - getattr(params, "leave", 0.0))
        return documents.times(share), "documents_per_s", math.inf
    if params.operations is None:
        assert params.seconds is not None, "a phase has an end"
        return Amount.exact(params.seconds)
    most = params.seconds if params.seconds is not None else math.inf
    number = params.operations * len(getattr(params, "selectivity_pct", (1,)))
    if params.rate is not None:  # an open loop
        return Amount.exact(min(most, number / params.rate))
    return Amount.exact(number), "operations_per_s", most
