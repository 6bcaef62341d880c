"""What functions of the analysis are given in tests: samples, and results of some trials."""

from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa

from storewise.analysis.files.parts import Part
from storewise.analysis.measure.reduction import Reduction
from storewise.analysis.model.results import Results
from storewise.metrics.schema import CORE, Sample


def samples_of(rows, trial="t", **options):
    """Rows of one trial, or of one each, as their tables."""
    trials = [trial] * len(rows) if isinstance(trial, str) else trial
    columns = {name: [getattr(row, name) for row in rows] for name in Sample._fields}
    columns |= {"trial": trials, "repeat": [1] * len(rows), "host": ["h"] * len(rows)}
    types = {field.name: field.type for field in CORE if field.name in columns}
    arrays = {name: pa.array(columns[name], type) for name, type in types.items()}
    return Reduction(pa.table(arrays), **options)


def results_of(trials, parts=()):
    """Results of these trials; every column but `trial` and `repeat` is a factor."""
    factors = tuple(name for name in trials if name not in ("trial", "repeat"))
    none = cast(Any, None)
    return Results(Path(), {}, none, trials, factors, parts, (), (), none, (), ())


def part(trial, phase, worker=0, **conditions):
    """A result file, of which only what it says of itself is there."""
    return Part(Path(), f"{phase}.{worker}.parquet", trial, phase, worker, conditions)
