"""How many documents the full corpus has, estimated from what a study loaded.

The corpus is what the study names (key `corpus`), in bytes of text and in files, or all that its
inputs were a sample of; else the inputs are all there is, and nothing is extrapolated. Its
documents follow from its text, for that is what a document is a share of; files differ in size more
than documents do.
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
#: The corpus as a multiple of what was loaded beyond which a figure is called extrapolated. A
#: judgement: over two powers of ten indexes get a level more and caches no longer hold them.
FAR = 100.0


@dataclass(frozen=True, slots=True)
class FullSize:
    """Numbers of documents: of the corpus, and the largest that one trial loaded."""

    documents: float
    loaded: float


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


def full_size(measures: pd.DataFrame, results: Results) -> FullSize | None:
    """The corpus in documents; None if all of it was loaded, or the study loaded no texts.

    `measures` are those of whole steps. Without the size of any store's text the corpus's files
    have as many documents as those of the inputs.
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
    """That the corpus is far beyond what was loaded."""
    if full.documents > FAR * full.loaded:
        yield StudyWarning(
            "extrapolated",
            "",
            f"the full corpus has about {full.documents:.3g} documents, "
            f"{full.documents / full.loaded:.2g} times the {full.loaded:,.0f} that were loaded at "
            "most: what is said of its size, cost and time is extrapolated",
            "measure larger volumes (factor `volume`, or more inputs), which shows whether rates "
            "and bytes per document stay what they are",
        )
