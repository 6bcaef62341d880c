"""Every figure with its heading and caption, and how all of them are made, once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.errors import ResultError
from storewise.figures import costs, hosts, per_node, query_plans, rates, scaling, steps
from storewise.figures.chart import Chart
from storewise.figures.drawing import Picture, draw, to_png, to_svg
from storewise.figures.published import published


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
#: Most panels of a figure; more are no longer read.
_MOST = 18
FIGURES = (
    FigureSpec(
        "throughput",
        "Throughput by engine",
        "Documents per second (other workloads than alignments: operations per second after the "
        "load), mean over repeats with its 95 % interval; steps at a target rate are "
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
        "0.01 % of the operations exceed, from the histograms of all operations of all workers "
        "and repeats. A percentile is drawn where ten operations or more lie above it. Lower is "
        f"better. {_HOLLOW}",
        rates.latency,
    ),
    FigureSpec(
        "scaling",
        "Scaling",
        "The same rates over the levels of each factor that is a number, with 95 % intervals. "
        "Thin dashed lines are the Universal Scalability Law where it could be fitted. Level lines "
        "are stores without servers: what the same clients reach without a cluster. Dotted: the "
        f"client's ceiling. {_HOLLOW}",
        scaling.over_levels,
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
        "not use the secondary index.",
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
        "Service time of the operations on the documents that each node owns: median (marker), "
        "mean (dot) and 95th percentile (tick); then what the processors of its host did in the "
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
    """A figure as made: no `pictures` where the study has nothing of it, and where it could not be
    drawn; then `error` says why."""

    spec: FigureSpec
    pictures: Sequence[Picture] = ()
    error: str = ""


def make_figures(tables: Tables, outdir: Path) -> list[Made]:
    """All figures, written to `outdir` as PNG and SVG, with the caption as text beside them.

    A figure that cannot be drawn is given back with its error, so that a report never fails over
    it. Files of an earlier run are removed. Raises ResultError where `outdir` cannot be written.
    """
    made = [_made(spec, tables) for spec in FIGURES]
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        for one in made:
            name = one.spec.name
            if not one.pictures:
                for form in ("png", "svg", "txt"):
                    (outdir / f"{name}.{form}").unlink(missing_ok=True)
                continue
            (outdir / f"{name}.png").write_bytes(to_png(one.pictures))
            (outdir / f"{name}.svg").write_text(to_svg(one.pictures), encoding="utf-8")
            text = f"{one.spec.heading}. {one.spec.caption}\n"
            (outdir / f"{name}.txt").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check its rights and the "
            "free space"
        ) from error
    return made


def _made(spec: FigureSpec, tables: Tables) -> Made:
    try:
        chart = spec.make(tables)
        if chart is None:
            return Made(spec)
        return Made(spec, draw(Chart(chart.panels[:_MOST], chart.note), spec.name))
    except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
        # Whatever odd results a plot meets, the page must come, with a warning.
        return Made(spec, (), f"{type(error).__name__}: {error}")


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
