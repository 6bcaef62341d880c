"""From what a study loaded to the full corpus: how many documents it has, what they take on disk.

The corpus is given in bytes of text and in files (key `corpus`). Its documents follow from its
text, for that is what a document is a share of; files differ in size more than documents do. Disk
follows from a straight line through sizes at several volumes where the study varied `volume`,
which keeps what a store takes whatever it holds (preallocated files, system tables) from being
multiplied too; else each document is taken to need what it needed in the study.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError
from statsmodels.regression.linear_model import OLS

from storewise.analysis.common.engines import CEILING, counts_copies
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import LEVEL
from storewise.study.prices import Corpus
from storewise.workloads.registry import WORKLOADS, workload

VOLUME = "volume"
#: Different volumes from which a line is fitted: through two every line goes.
LINE_LEVELS = 3
#: The corpus as a multiple of what was loaded beyond which a figure is called extrapolated. A
#: judgement: over two powers of ten indexes get a level more and caches no longer hold them.
FAR = 100.0
#: Ratio of bytes in a file of the corpus to those in one of the inputs beyond which they differ.
UNLIKE = 2.0


@dataclass(frozen=True, slots=True)
class FullSize:
    """The corpus in documents.

    `by` says what they follow from: "text" (bytes of text per document of the inputs) or "files"
    (documents per file, where no store told its text). `loaded` is the most that one trial loaded,
    `text_per_document` is in bytes, nan where it is not known.
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


def corpus_of(study: Mapping[str, Any]) -> Corpus:
    """The corpus of a stored study; the published one where an older result has none."""
    try:
        return Corpus.model_validate(study.get("corpus") or {})
    except ValidationError:
        return Corpus()


def load_phases(summary: pd.DataFrame) -> set[str]:
    """The phases that loaded, by the measures that only these have."""
    told = summary["measure"].isin(["insert_documents_per_s", "parse_share"])
    return set(map(str, summary.loc[told, "phase"]))


def full_size(tables: Tables) -> FullSize | None:
    """The corpus in documents; None where the study loaded none of such texts."""
    study = tables.results.study
    name = study.get("workload", "alignments")
    if name in WORKLOADS and not workload(name).reads_inputs:
        return None
    loaded = documents_loaded(tables.throughput)
    if loaded.empty or not loaded["documents"].max() > 0:
        return None
    corpus, most = corpus_of(study), float(loaded["documents"].max())
    text = text_per_document(tables.storage)
    if text > 0:
        return FullSize(corpus.bytes / text, "text", most, text)
    inputs = tables.results.inputs
    if inputs is not None and inputs.documents and inputs.files:
        return FullSize(corpus.files * inputs.documents / inputs.files, "files", most, math.nan)
    return None


def documents_loaded(throughput: pd.DataFrame) -> pd.DataFrame:
    """Documents that each trial loaded: trial, phase, step, documents (rate times wall time)."""
    phases = load_phases(throughput)
    rows = throughput[
        throughput["phase"].isin(phases) & (throughput["measure"] == "documents_per_s")
    ]
    return rows.assign(documents=rows["value"] * rows["wall"])[
        ["trial", "phase", "step", "documents"]
    ].reset_index(drop=True)


def text_per_document(storage: pd.DataFrame) -> float:
    """Bytes of decompressed text per document, the median over trials; nan where none tells."""
    wide = storage[storage["measure"].isin(["bytes_per_document", "share_of_raw_input"])]
    wide = wide.pivot_table(index="trial", columns="measure", values="value", observed=True)
    wide = wide.reindex(columns=["bytes_per_document", "share_of_raw_input"]).dropna()
    wide = wide[(wide > 0).all(axis=1)]
    if wide.empty:
        return math.nan
    return float((wide["bytes_per_document"] / wide["share_of_raw_input"]).median())


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
    found = model.get_prediction(np.array([[1.0, at / scale]])).summary_frame(alpha=1 - LEVEL)
    low, high = float(found["obs_ci_lower"].iloc[0]), float(found["obs_ci_upper"].iloc[0])
    mean = float(found["mean"].iloc[0])
    return Line(fixed, slope / scale, mean, max(0.0, low), high, int(model.df_resid))


def copies(row: Mapping[str, Any]) -> int:
    """By how much a store's own size is multiplied to have all replicas in it.

    Most engines count all of them; those that do not say so in a flag.
    """
    replicas = row.get("replicas")
    if missing(replicas) or counts_copies(str(row.get("engine", ""))):
        return 1
    return int(replicas or 1)


def corpus_disk(tables: Tables, full: FullSize) -> pd.DataFrame:
    """What the corpus takes on disk, all replicas included, per setting of a load.

    Columns: factors, phase, step, n, mean, low, high, resampled (``line``: the interval of a
    fitted line), error, freedom, note. Where the study varied `volume` and a line fits, there is
    one row over all volumes, whose level of `volume` is empty.
    """
    factors = list(tables.results.factors)
    names = ["n", "mean", "low", "high", "resampled", "error", "freedom", "note"]
    rows: list[dict[str, Any]] = []
    sizes = tables.storage_summary
    sizes = sizes[(sizes["measure"] == "bytes_per_document") & (sizes["mean"] > 0)]
    if "engine" in factors:
        sizes = sizes[sizes["engine"] != CEILING]
    fitted = _lines(tables, full) if VOLUME in factors else {}
    others = [f for f in factors if f != VOLUME]
    done = set()
    for row in records(sizes):
        setting = {f: row[f] for f in others}
        place = {"phase": str(row["phase"]), "step": int(row["step"])}
        key = (*(None if missing(v) else v for v in setting.values()), *place.values())
        times = copies(row)
        note = f"times {times} replicas, which its size leaves out" if times > 1 else ""
        if key in fitted:
            if key not in done:
                done.add(key)
                found, n = fitted[key]
                told = {
                    "n": n,
                    "mean": found.mean * times,
                    "low": found.low * times,
                    "high": found.high * times,
                    "resampled": "line",
                    "error": math.nan,
                    "freedom": float(found.freedom),
                }
                rows.append({**setting, **place, **told, "note": _words("line over volume", note)})
            continue
        factor = full.documents * times
        told = {name: row[name] for name in names if name != "note"}
        told |= {name: row[name] * factor for name in ("mean", "low", "high")}
        level = {VOLUME: row[VOLUME]} if VOLUME in factors else {}
        rows.append(
            {**setting, **level, **place, **told, "note": _words("per document as loaded", note)}
        )
    return pd.DataFrame(rows, columns=[*factors, "phase", "step", *names])


def _words(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _lines(tables: Tables, full: FullSize) -> dict[tuple[Any, ...], tuple[Line, int]]:
    """Lines and the number of their points, by levels of all factors but `volume`, phase, step."""
    others = [f for f in tables.results.factors if f != VOLUME]
    sizes = tables.storage[tables.storage["measure"] == "store_bytes"]
    sizes = sizes.merge(documents_loaded(tables.throughput), on=["trial", "phase", "step"])
    sizes = sizes.merge(tables.trials[["trial", *others]], on="trial")
    found = {}
    for key, group in grouped(sizes, [*others, "phase", "step"]):
        documents = group["documents"].round()  # a rate times a time, so whole but for rounding
        fit = line(documents.to_list(), group["value"].to_list(), full.documents)
        if fit is not None:
            found[(*key[:-1], int(key[-1]))] = (fit, fit.freedom + 2)
    return found


def corpus_warnings(tables: Tables, full: FullSize) -> list[StudyWarning]:
    """That the corpus is far beyond what was loaded, or made of other files."""
    found = []
    if full.multiple > FAR:
        found.append(
            StudyWarning(
                "extrapolated",
                "",
                f"the full corpus has about {full.documents:.3g} documents, "
                f"{full.multiple:.2g} times the {full.loaded:,.0f} that were loaded at most: what "
                "is said of its size, cost and time is extrapolated",
                "measure larger volumes (factor `volume`, or more inputs), which shows whether "
                "rates and bytes per document stay what they are",
            )
        )
    inputs, corpus = tables.results.inputs, corpus_of(tables.results.study)
    if full.by == "text" and inputs is not None and inputs.documents and inputs.files:
        mine = full.text_per_document * inputs.documents / inputs.files
        theirs = corpus.bytes / corpus.files
        if max(mine / theirs, theirs / mine) > UNLIKE:
            found.append(
                StudyWarning(
                    "unlike_corpus",
                    "",
                    f"a file of the corpus has {theirs:,.0f} bytes of text on average, one of "
                    f"these inputs {mine:,.0f}; by files the corpus would have "
                    f"{corpus.files * inputs.documents / inputs.files:.3g} documents instead of "
                    f"{full.documents:.3g}",
                    "take a sample of the corpus itself as inputs, or set `corpus` to your own",
                )
            )
    return found
