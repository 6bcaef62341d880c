"""The first screen as a picture for slides: answer, chart, and what it was measured with."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from storewise.analysis.verdict.answer import Answer
from storewise.errors import ResultError
from storewise.figures.drawing import Picture, picture_of, styled, to_png, to_svg
from storewise.figures.style import GREY
from storewise.figures.verdict_chart import Entry, VerdictChart

NAME = "verdict"
#: Inches: of the whole picture, of a row, and of what stands above and below the rows.
WIDTH, ROW, ABOVE, BELOW = 10.0, 0.46, 1.85, 0.85
#: Share of the width that names of stores take.
NAMES = 0.17
BEST, BEHIND, BASE, INK, SOFT = "#1F6FB2", "#B9CFE2", GREY, "#1B1F24", "#57606A"
_FILL: dict[str, dict[str, Any]] = {
    "best": {"color": BEST},
    "behind": {"color": BEHIND},
    "baseline": {"color": BASE},
    "single": {"fill": False, "ec": BEHIND, "lw": 0.8},
}
#: Signs in a line of small print.
_SIGNS = 175


def _drawn(answer: Answer, chart: VerdictChart) -> Picture:
    height = ABOVE + ROW * len(chart.rows) + BELOW
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.03, 0.0, 0.94, 1.0))
    axes.set_xlim(0, 1)
    axes.set_ylim(height, 0)
    axes.axis("off")
    text = partial(axes.text, color=INK, va="baseline")
    text(0, 0.32, chart.title, fontsize=10, color=SOFT)
    weight = "normal" if answer.sure == "low" else "bold"  # as quiet as it is unsure
    text(0, 0.68, answer.sentence, fontsize=16, fontweight=weight)
    text(0, 0.98, "\n".join(textwrap.wrap(answer.beside, 125)[:2]), fontsize=8, va="center")
    text(0, 1.27, answer.sureness, fontsize=8, color=SOFT)
    width = (1 - NAMES) / len(chart.columns)
    for place, column in enumerate(chart.columns):
        x = NAMES + place * width
        small = f"{column.about} (log)" if column.log else column.about
        weight = "bold" if column.counts else "normal"
        text(x, ABOVE - 0.27, column.name, fontsize=8, fontweight=weight)
        about = textwrap.shorten(small, 190 // len(chart.columns))
        text(x, ABOVE - 0.1, about, fontsize=5.5, color=SOFT)
    for number, row in enumerate(chart.rows):
        y = ABOVE + number * ROW
        axes.plot([0, 1], [y, y], color="#D0D7DE", linewidth=0.6)
        text(0, y + 0.19, row.name, fontsize=9, fontweight="bold")
        text(0, y + 0.35, textwrap.shorten(row.configuration, 34), fontsize=6.5, color=SOFT)
        for place, entry in enumerate(row.cells):
            _cell(axes, entry, NAMES + place * width, y, width * 0.88)
    y = ABOVE + len(chart.rows) * ROW + 0.2
    small_print = [
        chart.key,
        f"{', '.join([*chart.facts, *(text for text, _ in chart.left_out)])}. "
        f"{', '.join(chart.versions)}.",
    ]
    for line in (part for one in small_print for part in textwrap.wrap(one, _SIGNS)):
        text(0, y, line, fontsize=6.5, color=SOFT)
        y += 0.13
    return picture_of(figure)


def write_picture(answer: Answer, chart: VerdictChart, folder: Path) -> None:
    """The first screen as ``verdict.png``, ``.svg`` and ``.txt``; ResultError where they cannot be
    written. Nothing where the chart has no rows."""
    if not chart.rows or not chart.columns:
        return
    with styled(NAME):
        pictures = [_drawn(answer, chart)]
    caption = "\n".join([chart.title, *answer.lines, chart.key, ""])
    try:
        (folder / f"{NAME}.png").write_bytes(to_png(pictures))
        (folder / f"{NAME}.svg").write_text(to_svg(pictures), encoding="utf-8")
        (folder / f"{NAME}.txt").write_text(caption, encoding="utf-8")
    except OSError as error:
        raise ResultError(
            f"{folder}: cannot be written: {error.strerror or error}; check the rights of its "
            "directory and the free space"
        ) from error


def _cell(axes: Axes, entry: Entry, x: float, y: float, width: float) -> None:
    """The figure of one store at one criterion, and its bar below."""
    weight = "bold" if entry.state == "best" else "normal"
    ink = SOFT if entry.state == "none" else INK
    axes.text(x, y + 0.19, entry.text, fontsize=8, fontweight=weight, color=ink)
    if entry.length != entry.length:
        return
    middle, unit = y + 0.31, width / 100
    bar = Rectangle((x, middle - 0.055), entry.length * unit, 0.11, linewidth=0)
    bar.set(**_FILL[entry.state], hatch="////" if entry.few else None)
    axes.add_patch(bar)
    if entry.low == entry.low:
        ends = (x + entry.low * unit, x + entry.high * unit)
        axes.plot(ends, (middle, middle), color=INK, linewidth=0.9)
        for end in ends:
            axes.plot((end, end), (middle - 0.04, middle + 0.04), color=INK, linewidth=0.9)
