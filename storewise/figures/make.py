"""All figures, and how they are made, once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.errors import ResultError
from storewise.figures import costs, hosts, per_node, query_plans, rates, scaling, steps
from storewise.figures.chart import Chart
from storewise.figures.drawing import Picture, draw, to_png, to_svg
from storewise.figures.published import published
from storewise.figures.texts import texts

#: Name -> what builds the figure from the tables, None where a study has nothing of it. `texts`
#: has its heading and caption.
FIGURES: Mapping[str, Callable[[Tables], Chart | None]] = {
    "throughput": rates.throughput,
    "latency": rates.latency,
    "scaling": scaling.over_levels,
    "clients": steps.clients,
    "latency_over_throughput": steps.latency_over_throughput,
    "plans": query_plans.over_selectivity,
    "storage": costs.storage,
    "costs": costs.costs,
    "host_cpu": hosts.host_cpu,
    "latency_by_node": per_node.latency_by_node,
    "slowed_nodes": per_node.slowed_nodes,
    "published": published,
}
#: Panels of a figure, at most: nobody reads more.
_MOST = 18


@dataclass(frozen=True, slots=True)
class Made:
    """A figure as made: no `pictures` where the study has nothing of it, and where it could not be
    drawn; then `error` says why."""

    name: str
    pictures: Sequence[Picture] = ()
    error: str = ""


def make_figures(tables: Tables, outdir: Path) -> list[Made]:
    """All figures, written to `outdir` as PNG and SVG, with the caption as text beside them.

    A figure that cannot be drawn is given back with its error, so that a report never fails over
    it. Files of an earlier run are removed. Raises ResultError where `outdir` cannot be written.
    """
    made = [_made(name, tables) for name in FIGURES]
    told = texts()
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        for one in made:
            name = one.name
            if not one.pictures:
                for form in ("png", "svg", "txt"):
                    (outdir / f"{name}.{form}").unlink(missing_ok=True)
                continue
            (outdir / f"{name}.png").write_bytes(to_png(one.pictures))
            (outdir / f"{name}.svg").write_text(to_svg(one.pictures), encoding="utf-8")
            text = f"{told[name]['heading']}. {told[name]['caption']}\n"
            (outdir / f"{name}.txt").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check its rights and the "
            "free space"
        ) from error
    return made


def _made(name: str, tables: Tables) -> Made:
    try:
        chart = FIGURES[name](tables)
        if chart is None or not chart.panels:
            return Made(name)
        return Made(name, draw(Chart(chart.panels[:_MOST], chart.note), name))
    except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
        # Whatever odd results a plot meets, the page must come, with a warning.
        return Made(name, (), f"{type(error).__name__}: {error}")


def warnings_of(made: Iterable[Made]) -> list[StudyWarning]:
    """A warning for each figure that could not be drawn."""
    remedy = "report it with the study's analysis/ beside it; all else of the page holds"
    return [
        StudyWarning("figure", "", f"figure {one.name} could not be drawn ({one.error})", remedy)
        for one in made
        if one.error
    ]
