"""The number of documents of the full corpus, estimated from those that a study loaded.

The corpus is given by the study (key `corpus`, in bytes of text and in files) or is the list of
files that the inputs were sampled from; otherwise the inputs are the corpus, and nothing is
extrapolated. The number of documents is estimated from bytes of text, because files differ in size
more than documents do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pydantic import ValidationError

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import has_inputs
from storewise.analysis.model.results import Results
from storewise.analysis.model.tables import Tables
from storewise.study.prices import Corpus

VOLUME = "volume"
#: Ratio of the corpus to the loaded documents above which there is a warning. A judgement: over two
#: powers of ten indexes get a level more and no longer fit into caches.
MAX_EXTRAPOLATION = 100.0


@dataclass(frozen=True, slots=True)
class FullSize:
    """Number of documents of the corpus, and the largest number that one trial loaded."""

    documents: float
    loaded: float


def corpus_of(study: Mapping[str, Any]) -> Corpus | None:
    """The corpus of a stored study (key `corpus`); None if it has none or an invalid one."""
    try:
        return Corpus.model_validate(study.get("corpus"))
    except ValidationError:
        return None


def files_of_corpus(tables: Tables) -> int | None:
    """The number of files of the full corpus; None if all of them were loaded."""
    if not has_inputs(tables.results.study):
        return None
    corpus, inputs = corpus_of(tables.results.study), tables.results.inputs
    if corpus is not None:
        return corpus.files
    return inputs.listed if inputs is not None and inputs.listed > inputs.files else None


def full_size(measures: pd.DataFrame, results: Results) -> FullSize | None:
    """The corpus in documents; None if all of it was loaded, or the study loaded no texts.

    `measures` are those of whole steps. If no trial has the size of its text, the corpus is taken
    to have as many documents per file as the inputs.
    """
    loaded = measures.loc[measures["measure"] == "documents", "value"].max()
    if not has_inputs(results.study) or not loaded > 0:
        return None
    corpus, inputs = corpus_of(results.study), results.inputs
    per_file = inputs.documents / inputs.files if inputs and inputs.documents else 0.0
    if corpus is not None:
        text = text_per_document(measures)
        documents = corpus.bytes / text if text > 0 else corpus.files * per_file
    else:
        documents = inputs.listed * per_file if inputs and inputs.listed > inputs.files else 0.0
    return FullSize(documents, loaded) if documents > 0 else None


def text_per_document(measures: pd.DataFrame) -> float:
    """Bytes of decompressed text per document, the median over trials; nan if no trial has it."""
    names = ["bytes_per_document", "share_of_raw_input"]
    sizes = measures[measures["measure"].isin(names) & (measures["value"] > 0)]
    wide = sizes.pivot_table(index="trial", columns="measure", values="value", observed=True)
    wide = wide.reindex(columns=names)
    return float((wide[names[0]] / wide[names[1]]).median())


def corpus_warnings(full: FullSize) -> Iterator[StudyWarning]:
    """A warning if the corpus is more than MAX_EXTRAPOLATION times what was loaded."""
    if full.documents > MAX_EXTRAPOLATION * full.loaded:
        yield StudyWarning(
            "extrapolated",
            "",
            f"the full corpus has about {full.documents:.3g} documents, "
            f"{full.documents / full.loaded:.2g} times the {full.loaded:,.0f} that were loaded at "
            "most: its size, cost and time are extrapolated",
            "measure larger volumes (factor `volume`, or more inputs) to see whether rates and "
            "bytes per document stay the same",
        )
