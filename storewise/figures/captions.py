"""Every figure with its heading, caption and the text that stands in for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.atomic import write_aside
from storewise.errors import ResultError
from storewise.figures import costs, hosts, per_node, query_plans, rates, scaling, steps
from storewise.figures.chart import Chart
from storewise.figures.paper import draw, to_bytes
from storewise.figures.published import published
from storewise.layout import FIGURE_INDEX


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One figure: its file name's stem, heading and caption, and the function that builds it, which
    gives None where a study has nothing of it."""

    name: str
    heading: str
    caption: str
    make: Callable[[Tables], Chart | None]


#: Of figures with intervals.
_HOLLOW = "Hollow: not measured well enough (the interval spans more than a factor of ten)."
FIGURES = (
    FigureSpec(
        "throughput",
        "Throughput by engine",
        "Documents per second (other workloads than alignments: operations per second after the "
        "load), mean over repeats with its 95 % interval (bootstrap); steps at a target rate are "
        "left out, and steps that were asked different things are not compared. Loading counts "
        "the making of the documents (parsing) and the final flush; what follows is the steady "
        "part where the phase is long enough. Grey ticks: the client's ceiling, which is what the "
        f"same clients do without any store. {_HOLLOW}",
        rates.throughput,
    ),
    FigureSpec(
        "over_time",
        "Operations per second over time",
        "All workers together, mean over repeats; a load is counted in batches. Shaded seconds are "
        "warm-up. Phases shorter than 5 s are left out.",
        rates.over_time,
    ),
    FigureSpec(
        "latency",
        "Latency",
        "The time that one operation takes in the store: the median, and what 10 %, 1 %, 0.1 % and "
        "0.01 % of the operations exceed, from the histograms of all n operations of all workers "
        "and repeats. A percentile is drawn where ten operations or more lie above it. Lower is "
        f"better. {_HOLLOW}",
        rates.latency,
    ),
    FigureSpec(
        "scaling",
        "Scaling",
        "Speed-up over the lowest level, with 95 % intervals, the other factors at their lowest; "
        "the dotted line would be ideal, dashed ones are the Universal Scalability Law where it "
        "could be fitted. Intervals that reach beyond the panel are cut. "
        f"{_HOLLOW}",
        scaling.speedup,
    ),
    FigureSpec(
        "nodes",
        "Throughput over data nodes",
        "Documents per second of stores on servers over the number of their data nodes, with 95 % "
        "intervals. Horizontal lines are stores without servers and the client's ceiling (dotted): "
        f"what the same clients reach without a cluster. {_HOLLOW}",
        scaling.over_nodes,
    ),
    FigureSpec(
        "clients",
        "Throughput over clients",
        "Operations per second over the number of client threads of all workers, with 95 % "
        "intervals; where a phase varies operations or rate too, at the highest of them. Steps "
        "that were asked other things (another distribution, say) have panels of their own. "
        f"{_HOLLOW}",
        steps.clients,
    ),
    FigureSpec(
        "latency_over_throughput",
        "Latency over throughput",
        "Response time (from the intended start, so that waiting counts) of each operation over "
        "what all operations together reached: mean, and dashed the 99th percentile. A curve that "
        "turns upwards or backwards shows where a store has no more to give. Operations that had "
        "not begun when a step ended have no time: where little of the target was served, the "
        "true times are longer. Failed operations are not in them.",
        steps.latency_over_throughput,
    ),
    FigureSpec(
        "runtime",
        "Run time over clients",
        "Time until the last client was done, over the number of client threads, for each number "
        "of operations.",
        steps.runtime,
    ),
    FigureSpec(
        "plans",
        "Readings above a value: time over selectivity",
        "Mean time of an execution of q2 (fetch the readings above a value) and q3 (count them) "
        "over the share of the readings that it finds. Hollow markers: the store's own plan did "
        "not use the secondary index. Several settings of one engine have lines of their own.",
        query_plans.over_selectivity,
    ),
    FigureSpec(
        "storage",
        "Storage",
        "Bytes on disk per document at the end of the load, beside what the inputs, where there "
        "are any, take as they lie on disk (usually compressed). Of servers: what the server "
        "itself counts as its documents and indexes (or its database), without logs and "
        "preallocated files; the table has the whole data directories too, and from how many "
        "documents on the difference is under a tenth.",
        costs.storage,
    ),
    FigureSpec(
        "costs",
        "Cost",
        "What a million documents loaded, or a million operations, cost, with 95 % intervals: "
        "money where the study has prices, else the hours of all hosts (servers and clients). "
        f"Phases whose rate the study set are left out. {_HOLLOW}",
        costs.costs,
    ),
    FigureSpec(
        "host_cpu",
        "What the processors did",
        "Use of all CPUs of a host over time, time spent waiting for the disk (iowait) included; "
        "first repeat of each engine at its highest setting, phases of 5 s or more. Servers on "
        "hosts of their own have panels of their own; else they are in those of their clients.",
        hosts.host_cpu,
    ),
    FigureSpec(
        "busy_nodes",
        "What servers and clients used",
        "Processor time of each server, in cores: the mean over the phase, and as a tick the "
        "busiest second. Beside it that of the busiest client process: where it comes near one "
        "core, the client is the limit. Of more than 20 servers the three busiest of each "
        "engine. First repeat of each engine at its highest setting.",
        hosts.busy_nodes,
    ),
    FigureSpec(
        "latency_by_node",
        "Latency and load by node",
        "Above: service time of the operations on the documents that each node owns: median (bar), "
        "95th percentile (line) and mean (dot). Below: what the processors of its host did in the "
        "same time, time spent waiting for the disk (iowait) included; nodes of one host share it.",
        per_node.latency_by_node,
    ),
    FigureSpec(
        "slowed_nodes",
        "Slowed nodes",
        "Operations per second with 0, 1, 2 ... nodes slowed on purpose, with 95 % intervals; then "
        "the 95th percentile of service time and the iowait of each node, full where the node "
        "was slowed.",
        per_node.slowed_nodes,
    ),
    FigureSpec(
        "published",
        "Beside published studies",
        "Shapes only: the published values come from other hardware, versions and clients, so each "
        "curve is shown as a multiple of its own value at the lowest level that all of a panel "
        "have. Dashed with hollow markers: published; full: measured here.",
        published,
    ),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A figure as made. `svg` and `png` are None where the study has nothing of it, and where it
    could not be drawn: then `error` says why."""

    spec: FigureSpec
    png: bytes | None
    svg: bytes | None
    error: str = ""


def make_figures(tables: Tables, outdir: Path | None = None) -> list[Made]:
    """All figures; written to `outdir` as PNG and SVG, with the caption as text beside them, where
    one is given.

    A figure that cannot be drawn is given back with its error, so that a report never fails over
    it; a file of an earlier run is then removed. Raises ResultError where `outdir` cannot be
    written.
    """
    made = []
    for spec in FIGURES:
        try:
            chart = spec.make(tables)
            figure = draw(chart) if chart is not None else None
            if figure is None:
                made.append(Made(spec, None, None))
            else:
                made.append(Made(spec, to_bytes(figure, "png"), to_bytes(figure, "svg")))
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
            # Whatever odd results a plot meets, the page must come, with a warning.
            made.append(Made(spec, None, None, f"{type(error).__name__}: {error}"))
    if outdir is not None:
        _write(made, tables, outdir)
    return made


def warnings_of(made: Iterable[Made]) -> list[StudyWarning]:
    """A warning for each figure that could not be drawn."""
    remedy = "report it with the study's analysis/ beside it; all else of the page holds"
    return [
        StudyWarning(
            "figure", "", f"figure {one.spec.name} could not be drawn ({one.error})", remedy
        )
        for one in made
        if one.error
    ]


def tables_digest(tables: Tables) -> str:
    """A digest of all that a figure may show."""
    digest = hashlib.blake2b(digest_size=16)
    for name, table in tables.frames().items():
        digest.update(f"{name}: {', '.join(map(str, table))}\n".encode())
        digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    digest.update(repr((tables.results.inputs, tables.results.failed)).encode())
    digest.update(repr(tables.results.study.get("phases")).encode())
    return digest.hexdigest()


def stored_figures(tables: Tables, directory: Path) -> list[Made] | None:
    """The figures that `make_figures` wrote for these tables, None where they show others."""
    try:
        index = json.loads((directory / FIGURE_INDEX).read_text(encoding="utf-8"))
        if index["tables"] != tables_digest(tables):
            return None
        return [
            Made(
                spec,
                (directory / f"{spec.name}.png").read_bytes(),
                (directory / f"{spec.name}.svg").read_bytes(),
            )
            if spec.name in index["made"]
            else Made(spec, None, None, index["errors"].get(spec.name, ""))
            for spec in FIGURES
        ]
    except (OSError, ValueError, KeyError, TypeError):
        # Half a directory, or one of another version: drawing anew is always right.
        return None


def _write(made: list[Made], tables: Tables, outdir: Path) -> None:
    index = {
        "tables": tables_digest(tables),
        "made": [one.spec.name for one in made if one.svg],
        "errors": {one.spec.name: one.error for one in made if one.error},
    }
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        (outdir / FIGURE_INDEX).unlink(missing_ok=True)
        for one in made:
            caption = f"{one.spec.heading}. {one.spec.caption}\n".encode() if one.svg else None
            for form, data in (("png", one.png), ("svg", one.svg), ("txt", caption)):
                path = outdir / f"{one.spec.name}.{form}"
                if data is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(data)
        write_aside(outdir / FIGURE_INDEX, json.dumps(index, indent=1) + "\n")
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check its rights and the "
            "free space"
        ) from error
