"""All figures: how they are drawn and written, once per run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.figures import costs, hosts, rates, scaling, steps
from storewise.figures.chart import Chart
from storewise.figures.drawing import Picture, draw
from storewise.figures.published import published
from storewise.figures.texts import texts

#: Name -> what builds the figure from the tables, None where a study has nothing of it. `texts`
#: has its heading and caption.
FIGURES: Mapping[str, Callable[[Tables], Chart | None]] = {
    "throughput": rates.throughput,
    "latency": rates.latency,
    "scaling": scaling.over_levels,
    "latency_over_throughput": steps.latency_over_throughput,
    "plans": rates.over_selectivity,
    "storage": costs.storage,
    "costs": costs.costs,
    "host_cpu": hosts.host_cpu,
    "latency_by_node": hosts.latency_by_node,
    "published": published,
}
#: Panels of a figure, at most: nobody reads more.
_MOST = 18


@dataclass(frozen=True, slots=True)
class Made:
    """A figure; `picture` is None if the study has no data for it, or if drawing failed with
    `error`."""

    name: str
    picture: Picture | None = None
    error: str = ""


def make_figures(tables: Tables, outdir: Path) -> list[Made]:
    """Draw all figures and write them to `outdir` as PNG and SVG, with the caption as text.

    A figure that cannot be drawn is returned with its error, so that the report is made anyway.
    Files of an earlier run are removed. Raises OSError if `outdir` cannot be written.
    """
    outdir.mkdir(parents=True, exist_ok=True)
    for form in ("png", "svg", "txt"):
        for old in outdir.glob(f"*.{form}"):
            old.unlink()
    made = [_made(name, tables) for name in FIGURES]
    for one in made:
        if one.picture:
            told = texts()[one.name]
            write(one.picture, f"{told['heading']}. {told['caption']}\n", outdir / one.name)
    return made


def write(picture: Picture, caption: str, place: Path) -> None:
    """Write a figure as PNG and SVG, and its caption as text."""
    place.with_suffix(".png").write_bytes(picture.png)
    place.with_suffix(".svg").write_text(picture.svg, encoding="utf-8")
    place.with_suffix(".txt").write_text(caption, encoding="utf-8")


def _made(name: str, tables: Tables) -> Made:
    try:
        chart = FIGURES[name](tables)
        if chart is None or not chart.panels:
            return Made(name)
        return Made(name, draw(replace(chart, panels=chart.panels[:_MOST]), name))
    except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
        # A failed plot must not prevent the page: it becomes a warning.
        return Made(name, error=f"{type(error).__name__}: {error}")


def warnings_of(made: Iterable[Made]) -> list[StudyWarning]:
    """A warning for each figure that could not be drawn."""
    remedy = "report it and attach the study's analysis/; the rest of the page is valid"
    return [
        StudyWarning("figure", "", f"figure {one.name} could not be drawn ({one.error})", remedy)
        for one in made
        if one.error
    ]
