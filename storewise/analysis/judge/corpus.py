"""From what a study loaded to the full corpus: how many documents it has, what they take on disk.

The corpus is what the study names (key `corpus`), in bytes of text and in files, or all that its
inputs were a sample of; else the inputs are all there is, and nothing is extrapolated. Its
documents follow from its text, for that is what a document is a share of; files differ in size more
than documents do. Disk follows from a straight line through sizes at several volumes where the
study varied `volume`, which keeps what a store takes whatever it holds (preallocated files, system
tables) from being multiplied too; else each document is taken to need what it needed in the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from storewise.analysis.common.engines import CEILING, replica_factor
from storewise.analysis.common.frames import grouped, key_of, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import has_inputs
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import ESTIMATE, LEVEL
from storewise.analysis.stats.models import OLS
from storewise.study.prices import Corpus

VOLUME = "volume"
#: Different volumes from which a line is fitted: through two every line goes.
LINE_LEVELS = 3
#: The corpus as a multiple of what was loaded beyond which a figure is called extrapolated. A
#: judgement: over two powers of ten indexes get a level more and caches no longer hold them.
FAR = 100.0


@dataclass(frozen=True, slots=True)
class FullSize:
    """The corpus in documents.

    `by` says what they follow from: "text" (bytes of text per document of the inputs), "files"
    (documents per file, where no store told its text) or "sample" (files listed per file taken).
    `loaded` is the most that one trial loaded, `text_per_document` is in bytes, nan where it is not
    known.
    """

    documents: float
    by: str
    loaded: float
    text_per_document: float

    @property
    def multiple(self) -> float:
        """How many times what was loaded the corpus is."""
        return self.documents / self.loaded


@dataclass(frozen=True, slots=True)
class Line:
    """Size = `fixed` + `per_document` * documents, and the size at a number of documents with
    the interval in which one more store would lie there; `freedom` are the residuals' degrees."""

    fixed: float
    per_document: float
    mean: float
    low: float
    high: float
    freedom: int


def corpus_of(study: Mapping[str, Any]) -> Corpus | None:
    """The corpus that a stored study names; None where it names none, or none that is valid."""
    try:
        return Corpus.model_validate(study.get("corpus"))
    except ValidationError:
        return None


def files_of_corpus(tables: Tables) -> int | None:
    """The input files of the full corpus; None where they are those that were loaded."""
    if not has_inputs(tables.results.study):
        return None
    corpus, inputs = corpus_of(tables.results.study), tables.results.inputs
    if corpus is not None:
        return corpus.files
    return inputs.listed if inputs is not None and inputs.listed > inputs.files else None


def full_size(tables: Tables) -> FullSize | None:
    """The corpus in documents; None where it is what was loaded, or the study loaded no texts."""
    study = tables.results.study
    if not has_inputs(study):
        return None
    loaded = documents_loaded(tables.throughput)
    if loaded.empty or not loaded["documents"].max() > 0:
        return None
    corpus, most = corpus_of(study), float(loaded["documents"].max())
    text, inputs = text_per_document(tables.storage), tables.results.inputs
    per_file = inputs.documents / inputs.files if inputs and inputs.documents else 0.0
    if corpus is None:
        if inputs is None or not per_file or inputs.listed <= inputs.files:
            return None
        return FullSize(inputs.listed * per_file, "sample", most, text)
    if text > 0:
        return FullSize(corpus.bytes / text, "text", most, text)
    return FullSize(corpus.files * per_file, "files", most, math.nan) if per_file else None


def documents_loaded(throughput: pd.DataFrame) -> pd.DataFrame:
    """Documents that each trial loaded: trial, phase, step, documents."""
    rows = throughput[throughput["measure"] == "documents"].rename(columns={"value": "documents"})
    return rows[["trial", "phase", "step", "documents"]].reset_index(drop=True)


def text_per_document(storage: pd.DataFrame) -> float:
    """Bytes of decompressed text per document, the median over trials; nan where none tells."""
    measures = ["bytes_per_document", "share_of_raw_input"]
    wide = storage[storage["measure"].isin(measures) & (storage["value"] > 0)]
    wide = wide.pivot_table(index="trial", columns="measure", values="value", observed=True)
    size, share = (wide.get(name, pd.Series(dtype=float)) for name in measures)
    return float((size / share).median())


def line(documents: Sequence[float], sizes: Sequence[float], at: float) -> Line | None:
    """Ordinary least squares of sizes (B) over documents, and the size at `at` documents.

    Sizes of equally many documents are one point, their mean: repeats take nearly the same space,
    so that they say nothing of whether the line is straight, and each as a point of its own would
    make the interval too narrow. It is that of a prediction (statsmodels, `obs_ci`), cut at 0. None
    where there are fewer than `LINE_LEVELS` different numbers of documents or the line does not
    rise, for a store that shrinks with what it holds is no model of a larger one.
    """
    means = pd.Series(sizes, dtype=float).groupby(np.asarray(documents, dtype=float)).mean()
    if len(means) < LINE_LEVELS:
        return None
    x, y = means.index.to_numpy(dtype=float), means.to_numpy()
    scale = float(x.max())  # keeps the matrix well conditioned
    model = OLS(y, np.column_stack([np.ones(len(x)), x / scale])).fit()
    fixed, slope = map(float, model.params)
    if slope <= 0:
        return None
    prediction = model.get_prediction(np.array([[1.0, at / scale]])).summary_frame(alpha=1 - LEVEL)
    mean, low, high = map(float, prediction[["mean", "obs_ci_lower", "obs_ci_upper"]].iloc[0])
    return Line(fixed, slope / scale, mean, max(0.0, low), high, int(model.df_resid))


def corpus_disk(tables: Tables, full: FullSize) -> pd.DataFrame:
    """What the corpus takes on disk, all replicas included, per setting of a load.

    Columns: factors, phase, step, ESTIMATE, note. Where the study varied `volume` and a line fits,
    there is one row over all volumes, whose level of `volume` is empty.
    """
    factors = list(tables.results.factors)
    sizes = tables.storage_summary
    sizes = sizes[(sizes["measure"] == "bytes_per_document") & (sizes["mean"] > 0)]
    if "engine" in factors:
        sizes = sizes[sizes["engine"] != CEILING]
    keys = [*(f for f in factors if f != VOLUME), "phase", "step"]
    lines = _lines(tables, full, keys) if VOLUME in factors else {}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in records(sizes):
        times, key = replica_factor(row), key_of(row, keys)
        line_of_key = lines.get(key)
        if line_of_key is not None:
            figure = {name: getattr(line_of_key, name) for name in ("mean", "low", "high")}
            figure |= {
                "n": line_of_key.freedom + 2,
                "error": math.nan,
                "freedom": float(line_of_key.freedom),
            }
            note = "line over volume"
        else:
            figure = as_estimate(row).times(full.documents).columns()
            note = "per document as loaded"
            if VOLUME in factors:
                figure[VOLUME] = row[VOLUME]
                key = (*key, row[VOLUME])
        figure |= {name: figure[name] * times for name in ("mean", "low", "high")}
        if times > 1:
            note += f"; times {times} replicas, which its size leaves out"
        rows.setdefault(key, {**{name: row[name] for name in keys}, **figure, "note": note})
    return pd.DataFrame(list(rows.values()), columns=[*factors, "phase", "step", *ESTIMATE, "note"])


def _lines(tables: Tables, full: FullSize, keys: Sequence[str]) -> dict[tuple[Any, ...], Line]:
    """Lines by levels of all factors but `volume`, phase and step."""
    factors = [name for name in keys if name not in ("phase", "step")]
    sizes = tables.storage[tables.storage["measure"] == "store_bytes"]
    sizes = sizes.merge(documents_loaded(tables.throughput), on=["trial", "phase", "step"])
    sizes = sizes.merge(tables.trials[["trial", *factors]], on="trial")
    lines = {}
    for key, group in grouped(sizes, keys):
        documents = group["documents"].round()  # a rate times a time, so whole but for rounding
        fitted = line(documents.to_list(), group["value"].to_list(), full.documents)
        if fitted is not None:
            lines[key] = fitted
    return lines


def corpus_warnings(full: FullSize) -> Iterator[StudyWarning]:
    """That the corpus is far beyond what was loaded."""
    if full.multiple > FAR:
        yield StudyWarning(
            "extrapolated",
            "",
            f"the full corpus has about {full.documents:.3g} documents, "
            f"{full.multiple:.2g} times the {full.loaded:,.0f} that were loaded at most: what is "
            "said of its size, cost and time is extrapolated",
            "measure larger volumes (factor `volume`, or more inputs), which shows whether rates "
            "and bytes per document stay what they are",
        )
