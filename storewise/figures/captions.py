"""Every figure with its heading, caption and the text that stands in for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.model.tables import Tables
from storewise.errors import ResultError
from storewise.figures import costs, hosts
from storewise.figures import per_node as owners
from storewise.figures import query_plans as plans
from storewise.figures import rates as plots
from storewise.figures import reference_overlay as overlay
from storewise.figures import scaling as scale
from storewise.figures import steps as stepped
from storewise.figures.style import drawing, to_bytes


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One figure: its file name's stem, what it is called and says, and what it takes."""

    name: str
    heading: str
    caption: str
    absent: str
    """Why there is none where the function gives None."""
    make: Callable[[Tables], Figure | None]
    servers: bool = False
    """It is about servers; a study without any has no need to be told that it is missing."""
    steps: bool = False
    """It is about steps; likewise for a study without."""
    slowed: bool = False
    """It is about slowed nodes; likewise for a study without."""
    plans: bool = False
    """It is about plans of queries; likewise for a study without."""
    references: bool = False
    """It is about published studies; likewise for a study that names none."""


FIGURES = (
    FigureSpec(
        "throughput",
        "Throughput by engine",
        "Documents per second (other workloads than alignments: operations per second after the "
        "load), mean over repeats with its 95 % interval (bootstrap); steps at a target rate are "
        "left out, and steps that were asked different things are not compared. Loading counts "
        "the making of the documents (parsing) and the final flush; what follows is the steady "
        "part where the phase is long enough. The null engine (no store) is the client's own "
        "ceiling. Intervals that reach beyond the panel are cut.",
        "no phase has a rate",
        plots.throughput_by_engine,
    ),
    FigureSpec(
        "over_time",
        "Operations per second over time",
        "All workers together, mean over repeats. One operation of a write phase is one batch; "
        "shaded seconds are warm-up.",
        "no phase has values per second",
        plots.operations_over_time,
    ),
    FigureSpec(
        "latency",
        "Latency",
        "Percentiles of the time that one operation takes in the store, from the histograms of "
        "all workers and repeats added together. Lower is better.",
        "no Hdr log could be used",
        plots.latency_percentiles,
    ),
    FigureSpec(
        "scaling",
        "Scaling",
        "Speed-up over the lowest level, with 95 % intervals, the other factors at their lowest; "
        "the dotted line would be ideal, dashed ones are the Universal Scalability Law where it "
        "could be fitted. Intervals that reach beyond the panel are cut.",
        "no numeric factor has more than one level",
        scale.speedup,
    ),
    FigureSpec(
        "nodes",
        "Throughput over data nodes",
        "Documents per second of stores on servers over the number of their data nodes, with 95 % "
        "intervals. Horizontal lines are stores without servers and the null engine (dotted): what "
        "the same clients reach without a cluster.",
        "no engine was measured with several numbers of nodes",
        scale.over_nodes,
        servers=True,
    ),
    FigureSpec(
        "clients",
        "Throughput over clients",
        "Operations per second over the number of client threads of all workers, with 95 % "
        "intervals; where a phase varies operations or rate too, at the highest of them. Steps "
        "that were asked other things (another distribution, say) have panels of their own.",
        "no phase was measured with several numbers of clients",
        stepped.throughput_over_clients,
        steps=True,
    ),
    FigureSpec(
        "latency_over_throughput",
        "Latency over throughput",
        "Response time (from the intended start, so that waiting counts) of each operation over "
        "what all operations together reached: mean, and dashed the 99th percentile. A curve that "
        "turns upwards or backwards shows where a store has no more to give; dotted upright lines "
        "are knees. Operations that had "
        "not begun when a step ended have no time: where little of the target was served, the "
        "true times are longer. Failed operations are not in them.",
        "no phase was measured at several rates or numbers of clients",
        stepped.latency_over_throughput,
        steps=True,
    ),
    FigureSpec(
        "runtime",
        "Run time over clients",
        "Time until the last client was done, over the number of client threads, for each number "
        "of operations.",
        "no phase was measured with several numbers of operations",
        stepped.runtime_over_clients,
        steps=True,
    ),
    FigureSpec(
        "plans",
        "Readings above a value: time over selectivity",
        "Mean time of an execution of q2 (fetch the readings above a value) and q3 (count them) "
        "over the share of the readings that it finds. Hollow markers: the store's own plan did "
        "not use the secondary index. Several settings of one engine have lines of their own.",
        "no query was measured at several selectivities",
        plans.over_selectivity,
        plans=True,
    ),
    FigureSpec(
        "storage",
        "Storage",
        "Bytes on disk per document at the end of the load, beside what the inputs, where there "
        "are any, take as they lie on disk (usually compressed). Of servers: what the server "
        "itself counts as its documents and indexes (or its database), without logs and "
        "preallocated files; the table has the whole data directories too.",
        "no store told its size",
        plots.storage_per_document,
    ),
    FigureSpec(
        "costs",
        "Cost",
        "What a million documents loaded, or a million operations, cost, with 95 % intervals: "
        "money where the study has prices, else the hours of all hosts (servers and clients). "
        "Phases whose rate the study set are left out.",
        "no costs could be told",
        costs.costs,
    ),
    FigureSpec(
        "capacity",
        "The full corpus",
        "Hours that loading the full corpus would take over the number of data nodes (embedded "
        "stores: workers). Markers are from measured rates, lines from the model; beyond the last "
        "marker they say what would be if the law went on.",
        "the study loads nothing from which the corpus could be told",
        costs.capacity,
    ),
    FigureSpec(
        "host_cpu",
        "What the processors did",
        "Use of all CPUs of a host over time, time spent waiting for the disk (iowait) included; "
        "first repeat of each engine at its highest setting. Servers on hosts of their own have "
        "panels of their own; else they are in those of their clients.",
        "no host was sampled",
        hosts.host_cpu,
    ),
    FigureSpec(
        "busy_nodes",
        "What servers and clients used",
        "Processor time of each server, in cores: the mean over the phase, and as a tick the "
        "busiest second. Beside it that of the busiest client process: where it comes near one "
        "core, the client is the limit. First repeat of each engine at its highest setting.",
        "no store of this study is a server",
        hosts.busy_nodes,
        servers=True,
    ),
    FigureSpec(
        "latency_by_node",
        "Latency and load by node",
        "Above: service time of the operations on the documents that each node owns: median (bar), "
        "95th percentile (line) and mean (dot). Below: what the processors of its host did in the "
        "same time, time spent waiting for the disk (iowait) included; nodes of one host share it.",
        "no engine tells which of several nodes owns a document",
        owners.latency_by_node,
        servers=True,
    ),
    FigureSpec(
        "slowed_nodes",
        "Slowed nodes",
        "Operations per second with 0, 1, 2 ... nodes slowed on purpose, with 95 % intervals; then "
        "the 95th percentile of service time and the iowait of each node, full where the node "
        "was slowed.",
        "no node was slowed",
        owners.slowed_nodes,
        slowed=True,
    ),
    FigureSpec(
        "published",
        "Beside published studies",
        "Shapes only: the published values come from other hardware, versions and clients, so each "
        "curve is shown as a multiple of its own value at the lowest level that all of a panel "
        "have. Dashed with hollow markers: published; full: measured here.",
        "no published curve runs over something that this study varied",
        overlay.published_shapes,
        references=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A figure as made: `svg` and `png` are None where it could not be, `why` says the reason."""

    spec: FigureSpec
    png: bytes | None
    svg: bytes | None
    why: str


def make_figures(tables: Tables, outdir: Path | None = None) -> list[Made]:
    """All figures; written to `outdir` as PNG and SVG, with the caption as text beside them, where
    one is given.

    A figure that cannot be drawn is given back with its reason, so that a report never fails over
    it; a file of an earlier run is then removed. Raises ResultError where `outdir` cannot be
    written.
    """
    made = []
    for spec in FIGURES:
        try:
            with drawing():
                figure = spec.make(tables)
            if figure is None:
                made.append(Made(spec, None, None, spec.absent))
            else:
                made.append(Made(spec, to_bytes(figure, "png"), to_bytes(figure, "svg"), ""))
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
            # Whatever odd results a plot meets, the page must come with its reason.
            made.append(Made(spec, None, None, f"{type(error).__name__}: {error}"))
    if outdir is not None:
        _write(made, tables, outdir)
    return made


#: What the figures of a directory show, and why those that are not there are not.
INDEX = "figures.json"


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
        index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
        if index["tables"] != tables_digest(tables):
            return None
        return [
            Made(spec, None, None, why)
            if (why := index["why"][spec.name])
            else Made(
                spec,
                (directory / f"{spec.name}.png").read_bytes(),
                (directory / f"{spec.name}.svg").read_bytes(),
                "",
            )
            for spec in FIGURES
        ]
    except (OSError, ValueError, KeyError, TypeError):
        # Half a directory, or one of another version: drawing anew is always right.
        return None


def _write(made: list[Made], tables: Tables, outdir: Path) -> None:
    index = {"tables": tables_digest(tables), "why": {one.spec.name: one.why for one in made}}
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        (outdir / INDEX).unlink(missing_ok=True)
        for one in made:
            for form, data in (("png", one.png), ("svg", one.svg)):
                path = outdir / f"{one.spec.name}.{form}"
                if data is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(data)
            caption = outdir / f"{one.spec.name}.txt"
            if one.svg is None:
                caption.unlink(missing_ok=True)
            else:
                caption.write_text(f"{one.spec.heading}. {one.spec.caption}\n", encoding="utf-8")
        (outdir / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check its rights and the "
            "free space"
        ) from error
