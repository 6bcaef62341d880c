"""Texts of the page: the methods paragraph, and the comparison with published studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storewise.analysis.measure.references import finding
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.measures import rounds_in_words

#: What the paragraph of methods names.
_SSEARCH = "W. R. Pearson, Genomics 11:635 (1991)"
_REFERENCES = (
    "E. Triantaphyllou, Multi-criteria Decision Making Methods (2000), section 2.2.2",
    "C. Y. Kramer, Biometrics 12:307 (1956)",
)


def methods(tables: Tables, conditions: Mapping[str, Sequence[str]]) -> str:
    """The methods of measurement and judgement, as a paragraph for a paper."""
    known = {term: "; ".join(values) for term, values in conditions.items()}
    inputs = tables.results.inputs
    hits = f" ({inputs.kinds['align']:,} hits)" if inputs and "align" in inputs.kinds else ""
    form = inputs.format if inputs else ""
    references = [*((_SSEARCH,) if form.startswith(("m10", "fasta")) else ()), *_REFERENCES]
    score, tukey = len(references) - 1, len(references)
    searches = "SSEARCH [1]" if form == "m10" else f"sequence searches (format {form})"
    searches += " [1]" * (form.startswith("fasta"))
    sentences = [
        f"Stores were compared with Storewise ({known.get('versions', 'versions unknown')})",
        f"on {known.get('hosts', 'unknown hosts')}, {known.get('operating system', '')}, "
        f"file system {known.get('file system of the stores', 'unknown')}.",
        f"Data: {known['inputs']}{hits} of {searches}." if "inputs" in known else "",
        f"Settings: {known['engine settings']}." if "engine settings" in known else "",
        f"Factors: {known['factors']}." if "factors" in known else "",
        f"Phases: {known['phases']}." if "phases" in known else "",
        f"{len(tables.trials):,} trials, {rounds_in_words(tables)}; a round measures every setting "
        f"once, in an order drawn with seed {known['seed']}.",
        "The score of a store in a round is the weighted sum of the logarithms of its figures "
        f"[{score}]; "
        "score = store + round + error, with the variance pooled over the stores, or a store's own "
        "where larger. A store was recommended alone where the 95 % t interval of its ratio to "
        "every other store left out 1 and it was at least 1.2 times as good; else all stores that "
        "were less than 1.2 times worse or not worse by Tukey's test for unequal numbers "
        f"[{tukey}]. The "
        "level of 5 % is divided by the number of settings that the best store could choose from.",
        *(f"[{number}] {text}." for number, text in enumerate(references, 1)),
    ]
    return " ".join(filter(None, sentences))


def published(tables: Tables) -> tuple[list[str], list[tuple[str, list[str]]]] | None:
    """What compares with published figures, and each reference with its citation, hardware and
    note; None where the study names none."""
    references = tables.results.references
    if not references:
        return None
    sentences = finding(tables.reference_agreement) or [
        "No figure of this study can be compared with a published one: it varied none of their "
        "variables, or its phases or engines differ"
    ]
    sources = [
        (r.name, [r.cited(), f"Hardware: {r.hardware}", *([r.note] if r.note else [])])
        for r in references
    ]
    return sentences, sources
