"""The work of a trial and its expected duration: documents, operations, rates, seconds.

Rates come from earlier results of the study, otherwise from stated defaults.
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
#: How far off, either way, may be a default; a rate that was measured once only or tried out; and a
#: number of documents that follows from sizes.
DEFAULT_FACTOR, MEASURED_FACTOR, SIZE_FACTOR = 4.0, 2.0, 1.5


@dataclass(frozen=True, slots=True)
class Amount:
    """An expected number with its range and its source."""

    mean: float
    low: float
    high: float
    source: str = ""

    @classmethod
    def within(cls, mean: float, factor: float, source: str = "") -> Amount:
        """A number that may be wrong by this factor in both directions."""
        return cls(mean, mean / factor, mean * factor, source)

    @classmethod
    def exact(cls, number: float, source: str = "") -> Amount:
        return cls(number, number, number, source)

    @classmethod
    def total(cls, amounts: Sequence[Amount]) -> Amount:
        """The sum of amounts; its range is the sum of all lowest and of all highest values."""
        return cls(
            math.fsum(one.mean for one in amounts),
            math.fsum(one.low for one in amounts),
            math.fsum(one.high for one in amounts),
        )

    def times(self, factor: float) -> Amount:
        return Amount(self.mean * factor, self.low * factor, self.high * factor, self.source)

    def over(self, rate: Amount) -> Amount:
        """The seconds for this amount at a rate per second."""
        return Amount(self.mean / rate.mean, self.low / rate.high, self.high / rate.low)

    def text(self, shown: Callable[[float], str] = "{:,.0f}".format) -> str:
        """As text: ``12.50 (8.00 to 20.00)``, or the number if there is no range."""
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
    """Rates of one engine, measured on this machine just before the estimate."""

    engine: str
    rates: Mapping[str, float]
    """Measured rates, by the keys of DEFAULT_RATES."""

    def rate(self, engine: str, phase: str, measure: str) -> Amount:
        """The rate to expect of an engine: less certain for engines that were not tried."""
        if measure not in self.rates or (measure == "operations_per_s" and phase != "read"):
            return DEFAULT_RATES[measure]  # a question is no read by id
        factor = DEFAULT_FACTOR if engine != self.engine else MEASURED_FACTOR
        source = f"tried out with {self.engine} on this machine, {factor:g} times more or less"
        return Amount.within(self.rates[measure], factor, source)


def documents_of(study: Study, results: Path) -> Amount:
    """The number of documents in a study's inputs: by its manifest, else by the sizes of the files,
    else by the number of files and bytes in `corpus`."""
    counted, _ = read_manifest(results / layout.MANIFEST)
    if counted and counted.documents is not None and counted.files and _same(study, results):
        source = f"the manifest of {counted.files:,} files"
        return Amount.exact(float(counted.documents), source)
    corpus = study.corpus or PUBLISHED
    files, each = corpus.files, corpus.bytes / corpus.files
    known = "`corpus`: they are searched first"
    if study.inputs.paths:
        try:
            paths = list_inputs(study.inputs.paths)
            files, each, known = len(paths), _text_of(paths), "the sizes of the files"
        except StorewiseError as error:
            # An estimate must be possible before the data exist.
            why = str(error).partition(";")[0]
            known = f"`corpus`, as the inputs cannot be looked at: {why}"
    taken, sample = float(files), study.inputs.sample
    if sample is not None and sample.share is not None:
        taken = files * sample.share
    elif sample is not None:
        taken = min(files, sample.files or (sample.bytes or 0) / max(each, 1.0))
    source = f"{taken:,.0f} files of {each / 1e6:.3g} MB, {TEXT_PER_DOCUMENT:g} bytes a document"
    source += f", from {known}"
    return Amount.within(taken * each / TEXT_PER_DOCUMENT, SIZE_FACTOR, source)


def _same(study: Study, results: Path) -> bool:
    """Whether the results were measured with the same inputs."""
    kept = results / layout.STUDY
    try:
        text = kept.read_text(encoding="utf-8")
        return Study.model_validate_json(text).inputs == study.inputs
    except FileNotFoundError:
        return True  # inputs are listed before the first run writes its study
    except (OSError, ValueError):
        return False  # the analysis reports the error


def _text_of(paths: Sequence[str]) -> float:
    """Mean bytes of decompressed text per file, from at most `_LOOKED_AT` files, evenly spread."""
    chosen = paths[:: max(1, -(-len(paths) // _LOOKED_AT))]
    sizes = {path: float(one.size) for path, one in stats(chosen).items()}
    for path in chosen:
        if not is_remote(path) and Path(path).is_file():
            sizes[path] = float(Path(path).stat().st_size)
    texts = [n * (COMPRESSION if path.endswith(_COMPRESSED) else 1) for path, n in sizes.items()]
    return math.fsum(texts) / len(texts) if texts else 0.0


class Rates:
    """Rates of a study: of its earlier results (``analysis/summary.csv``), else defaults."""

    def __init__(self, results: Path, probe: Probe | None = None) -> None:
        self._probe = probe or Probe("", {})
        self._measured: dict[tuple[str, str, str], Amount] = {}
        try:
            path = results / layout.ANALYSIS / layout.SUMMARY
            table = pd.read_csv(path, keep_default_na=False, na_values=[""])
            table = table[table["measure"].isin(DEFAULT_RATES) & (table["mean"] > 0)]
            places = table[table["operation"] == ALL].groupby(["engine", "phase", "measure"])
            for (name, phase, measure), rows in places:
                self._measured[str(name), str(phase), str(measure)] = _measured(rows)
        except (OSError, ValueError, KeyError):
            pass  # nothing was measured yet, or the analysis reports the error

    def of(self, trial: Trial, phase: str, measure: str) -> Amount:
        """A rate of a phase: measured with the trial's engine, whatever the other levels and the
        step, else tried out on this machine, else the default.

        If the store waits for the disk after each document, it is the rate of a slow disk.
        """
        if known := self._measured.get((trial.engine, phase, measure)):
            return known
        store, spec = engine(trial.engine), workload(trial.workload).phases[phase]
        level = store.level(trial.consistency)
        if level in store.slow_levels and (spec.loads or spec.changes):
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


def _measured(rows: pd.DataFrame) -> Amount:
    """The geometric mean of rates, with the lowest and highest end of their intervals.

    A single repeat has no interval.
    """
    middle = geometric_mean(rows["mean"])
    if not (rows[["low", "high"]] > 0).all(axis=None):
        source = f"measured, {MEASURED_FACTOR:g} times more or less"
        low, high = rows["mean"].min() / MEASURED_FACTOR, rows["mean"].max() * MEASURED_FACTOR
        return Amount(middle, low, high, source)
    return Amount(middle, rows["low"].min(), rows["high"].max(), "measured")


@dataclass(frozen=True, slots=True)
class Work:
    """The seconds of a trial's phases, and the rates behind them by phase."""

    seconds: Amount
    rates: Mapping[str, Amount]


def work_of(trial: Trial, documents: Amount | None, rates: Rates) -> Work:
    """The time of all phases of a trial; `documents` are those of the study's inputs."""
    seconds, used = [], {}
    for phase in trial.phases:
        for override in phase.step_overrides():
            step = _step(trial, phase, override, documents)
            if isinstance(step, Amount):
                seconds.append(step)
                continue
            amount, measure, most = step
            rate = used[phase.name] = rates.of(trial, phase.name, measure)
            time = amount.over(rate)
            seconds.append(Amount(min(most, time.mean), min(most, time.low), min(most, time.high)))
    return Work(Amount.total(seconds), used)


def _step(
    trial: Trial, phase: Phase, override: Mapping[str, Any], documents: Amount | None
) -> Amount | tuple[Amount, str, float]:
    """The time of one step in s; if it depends on a rate: the amount of work, the measure of the
    rate, and the upper limit of the time in s."""
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
