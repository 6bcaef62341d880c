"""What functions of the analysis are given in tests: samples, and results of some trials."""

from pathlib import Path
from typing import Any, cast

import pandas as pd

from storewise.analysis.files.parts import Part
from storewise.analysis.model.results import Results
from storewise.metrics.schema import Sample


def samples_of(rows, trial="t", host="h"):
    table = pd.DataFrame(rows, columns=list(Sample._fields)).astype({"value": float})
    return table.assign(trial=trial, repeat=1, host=host)


def results_of(trials, parts=()):
    """Results of these trials; every column but `trial` and `repeat` is a factor."""
    factors = tuple(name for name in trials if name not in ("trial", "repeat"))
    none = cast(Any, None)
    return Results(Path(), {}, none, trials, factors, parts, (), (), none, (), ())


def part(trial, phase, worker=0, **conditions):
    """A result file, of which only what it says of itself is there."""
    return Part(Path(), f"{phase}.{worker}.parquet", trial, phase, worker, conditions)
