"""What the page says besides figures and tables: what was measured how, and raw results."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, consistency, embedded, title
from storewise.analysis.common.text import all_of, binary, level
from storewise.analysis.files.parts import Part, host_of, instance_of, part_versions
from storewise.analysis.measure.references import finding
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.measures import rounds_in_words
from storewise.layout import ANALYSIS, FIGURES, STUDY, SUMMARY, TRIALS
from storewise.study.prices import Prices


def provenance(tables: Tables) -> list[tuple[str, list[str]]]:
    """What the study measured, with what and where, as terms with their values; differing ones
    are all listed."""
    results = tables.results
    study = results.study
    measured = [p for p in results.parts if p.worker is not None or p.node is not None]

    def distinct(value: Callable[[Mapping[str, Any]], object]) -> list[str]:
        texts = {str(value(part.conditions) or "") for part in measured}
        return sorted(texts - {"", "unknown"})

    terms: list[tuple[str, list[str]]] = [
        ("study", [str(study.get("name", results.directory.name))]),
        ("seed", [str(study.get("seed", "unknown"))]),
        ("repeats", [str(study.get("repeats", "unknown"))]),
        ("workload", [str(study.get("workload", "alignments"))]),
        ("phases", [_phase(p) for p in study.get("phases", []) if isinstance(p, Mapping)]),
        ("factors", _factors(tables)),
        ("hosts", distinct(lambda part: ": ".join(host_of(part)))),
        ("EC2 instances", distinct(_instance)),
        ("operating system", distinct(lambda part: (part.get("host") or {}).get("system"))),
        ("file system of the stores", distinct(lambda part: part.get("store_file_system"))),
        ("sampled disk", distinct(lambda part: part.get("sampled_disk"))),
        ("engine settings", _settings(study)),
        ("consistency", _levels(tables)),
        ("versions", _versions(measured)),
        ("inputs", _inputs(tables)),
        ("prices", _prices(study)),
    ]
    return [(term, values) for term, values in terms if values]


#: What the paragraph of methods names.
_REFERENCES = (
    "W. R. Pearson, Genomics 11:635 (1991)",
    "E. Triantaphyllou, Multi-criteria Decision Making Methods (2000), section 2.2.2",
    "C. Y. Kramer, Biometrics 12:307 (1956)",
)


def methods(tables: Tables) -> str:
    """How it was measured and judged, as a paragraph for a paper."""
    known = {term: "; ".join(values) for term, values in provenance(tables)}
    inputs = tables.results.inputs
    hits = f" ({inputs.kinds['align']:,} hits)" if inputs and "align" in inputs.kinds else ""
    sentences = [
        f"Stores were compared with Storewise ({known.get('versions', 'versions unknown')})",
        f"on {known.get('hosts', 'unknown hosts')}, {known.get('operating system', '')}, "
        f"file system {known.get('file system of the stores', 'unknown')}.",
        f"Data: {known['inputs']}{hits} of SSEARCH [1]." if "inputs" in known else "",
        f"Settings: {known['engine settings']}." if "engine settings" in known else "",
        f"Factors: {known['factors']}." if "factors" in known else "",
        f"Phases: {known['phases']}." if "phases" in known else "",
        f"{len(tables.trials):,} trials, {rounds_in_words(tables)}; a round measures every setting "
        f"once, in an order drawn with seed {known.get('seed', 'unknown')}.",
        "The score of a store in a round is the weighted sum of the logarithms of its figures [2]; "
        "score = store + round + error, with the variance pooled over the stores, or a store's own "
        "where larger. A store was recommended alone where the 95 % t interval of its ratio to "
        "every other store left out 1 and it was at least 1.2 times as good; else all stores that "
        "were less than 1.2 times behind or not worse by Tukey's test for unequal numbers [3]. The "
        "level of 5 % is divided by the number of settings that the best store could choose from.",
        *(f"[{number}] {text}." for number, text in enumerate(_REFERENCES, 1)),
    ]
    return " ".join(filter(None, sentences))


def _instance(part: Mapping[str, Any]) -> str:
    """Type, price class, zone and image of the instance that a part was measured on."""
    instance = instance_of(part)
    if not instance:
        return ""
    kind, life, zone, image = (
        instance.get(key, "?") for key in ("type", "life_cycle", "zone", "image")
    )
    return f"{kind}, {life}, zone {zone}, image {image}"


def _phase(phase: Mapping[str, Any]) -> str:
    text = str(phase.get("name", "?"))
    params = {k: v for k, v in (phase.get("params") or {}).items() if v is not None}
    if params:
        text += ": " + ", ".join(f"{k} {v}" for k, v in params.items())
    steps = phase.get("steps") or []
    return f"{text} ({len(steps)} steps: {json.dumps(steps)})" if steps else text


def _factors(tables: Tables) -> list[str]:
    trials = tables.trials
    return [
        f"{name}: {', '.join(map(level, _in_order(trials[name])))}"
        for name in tables.results.factors
        if len(trials)
    ]


def _in_order(levels: pd.Series) -> list[Any]:
    return sorted(levels.dropna().unique(), key=lambda one: (not isinstance(one, str), one))


def _settings(study: Mapping[str, Any]) -> list[str]:
    engines = study.get("engines")
    if not isinstance(engines, Mapping):
        return []
    return [
        f"{title(name)}: {json.dumps(settings) if settings else 'defaults'}"
        for name, settings in engines.items()
    ]


def _levels(tables: Tables) -> list[str]:
    trials = tables.trials
    if not {"engine", "consistency"} <= set(trials.columns):
        return []
    pairs = sorted(set(zip(trials["engine"], trials["consistency"], strict=True)))
    return [
        f"{title(engine)}, {promise}: {meaning}"
        for engine, promise in pairs
        if (meaning := consistency(str(engine), str(promise)))
    ]


def _versions(parts: list[Part]) -> list[str]:
    by_name: dict[str, set[str]] = {}
    for name, version in itertools.chain.from_iterable(map(part_versions, parts)):
        # A server's version names its product already.
        by_name.setdefault("server" if name.startswith("server of") else name, set()).add(version)
    return [f"{name} {', '.join(sorted(versions))}" for name, versions in sorted(by_name.items())]


def _prices(study: Mapping[str, Any]) -> list[str]:
    """The prices of the study; none where it has none, or none that are valid. Which of them a cost
    was told by stands beside the cost."""
    try:
        prices = Prices.model_validate(study.get("prices"))
    except ValueError:
        return []
    hours = f"node_hour {prices.node_hour:g}, client_hour {prices.client_hour:g} {prices.currency}"
    return ["; ".join(filter(None, (hours, prices.source)))]


def _inputs(tables: Tables) -> list[str]:
    total = tables.results.inputs
    if total is None:
        return []
    text = f"{total.files:,} files, {binary(total.bytes)} as they lie on disk"
    if total.documents is not None:
        text += f", {total.documents:,} documents"
    return [text]


def layouts(tables: Tables) -> str:
    """How the embedded stores were laid out; empty without any."""
    engines = sorted(set(map(str, tables.trials.get("engine", ()))) - {CEILING, BASELINE})
    names = [title(engine) for engine in engines if embedded(engine)]
    if not names:
        return ""
    return (
        f"{all_of(names)}: embedded, that is inside the client's process. Each writing process had "
        "a store of its own (workers times processes in a trial), so that embedded stores can be "
        "compared: most can have only one writer. Readers opened all of them. In a phase that "
        "changes data each process used its own store alone, a part of the data, while clients of "
        "a server share one store: such rates cannot fairly be held against those of servers."
    )


def published(tables: Tables) -> tuple[list[str], list[tuple[str, list[str]]]] | None:
    """What compares with published figures, and each reference with its citation, hardware and
    note; None where the study names none."""
    references = tables.results.references
    if not references:
        return None
    sentences = finding(tables.reference_agreement) or [
        "Nothing of this study stands beside a published figure: it varied nothing that they "
        "varied, or its phases or engines are others"
    ]
    sources = [
        (r.name, [r.cited(), f"Hardware: {r.hardware}", *([r.note] if r.note else [])])
        for r in references
    ]
    return sentences, sources


def files(tables: Tables) -> list[tuple[str, str]]:
    """Where the numbers behind the page are, relative to it."""
    inputs = ("inputs/", "the manifest of the inputs and the list of quarantined files")
    return [
        (SUMMARY, "every headline figure with its interval, one row each"),
        (f"{ANALYSIS}/", "every table of the analysis as CSV, and the verdict as JSON"),
        (f"{FIGURES}/", "every figure as PNG and SVG"),
        (
            f"{TRIALS}/",
            "the raw results: per trial, phase and worker a Parquet table and an Hdr log, per "
            "server a table "
            f"({len(tables.results.parts)} tables, {len(tables.results.logs)} logs)",
        ),
        *([inputs] if tables.results.inputs is not None else []),
        (STUDY, "the study as it was resolved"),
    ]
