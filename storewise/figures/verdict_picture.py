"""The first screen as a picture for slides: answer, chart and facts of the measurement."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from storewise.analysis.verdict.answer import Answer
from storewise.figures.drawing import picture_of, styled
from storewise.figures.make import write
from storewise.figures.style import GREY
from storewise.figures.verdict_chart import KEY, VerdictChart

NAME = "verdict"
#: Inches: of the whole picture, of a row, and of what stands above and below the rows.
WIDTH, ROW, ABOVE, BELOW = 10.0, 0.46, 1.85, 0.85
#: Share of the width that names of stores take.
NAMES = 0.17
BEST, BEHIND, INK, SOFT = "#1F6FB2", "#B9CFE2", "#1B1F24", "#57606A"
_FILL: dict[str, dict[str, Any]] = {
    "best": {"color": BEST},
    "behind": {"color": BEHIND},
    "baseline": {"color": GREY},
    "single": {"fill": False, "ec": BEHIND, "lw": 0.8},
}
#: Signs in a line of small print.
_SIGNS = 175


def write_picture(answer: Answer, chart: VerdictChart, folder: Path) -> None:
    """Write the report's first screen as ``verdict.png``, ``.svg`` and ``.txt``; nothing if the
    chart has no rows. Raises OSError if they cannot be written."""
    if chart.rows and chart.columns:
        with styled(NAME):
            picture = picture_of(_drawn(answer, chart))
        write(picture, "\n".join([chart.title, *answer.lines, KEY, ""]), folder / NAME)


def _drawn(answer: Answer, chart: VerdictChart) -> Figure:
    height = ABOVE + ROW * len(chart.rows) + BELOW
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.03, 0.0, 0.94, 1.0))
    axes.set(xlim=(0, 1), ylim=(height, 0))
    axes.axis("off")

    def text(
        x: float, y: float, words: str, size: float, colour: str = INK, *, bold: bool = False
    ) -> None:
        weight = "bold" if bold else "normal"
        axes.text(x, y, words, fontsize=size, color=colour, fontweight=weight, va="baseline")

    text(0, 0.32, chart.title, 10, SOFT)
    # As quiet as it is unsure.
    text(0, 0.68, answer.sentence, 16, bold=answer.sure != "low")
    for place, line in enumerate(textwrap.wrap(answer.beside, 125)[:2]):
        text(0, 0.95 + 0.13 * place, line, 8)
    text(0, 1.27, answer.sureness, 8, SOFT)
    width = (1 - NAMES) / len(chart.columns)
    for place, column in enumerate(chart.columns):
        x = NAMES + place * width
        about = f"{column.about} (log)" if column.log else column.about
        text(x, ABOVE - 0.27, column.name, 8, bold=column.counts)
        text(x, ABOVE - 0.1, textwrap.shorten(about, 190 // len(chart.columns)), 5.5, SOFT)
    for number, row in enumerate(chart.rows):
        y = ABOVE + number * ROW
        axes.axhline(y, color="#D0D7DE", linewidth=0.6)
        text(0, y + 0.19, row.name, 9, bold=True)
        text(0, y + 0.35, textwrap.shorten(row.configuration, 34), 6.5, SOFT)
        for place, cell in enumerate(row.cells):
            x, unit = NAMES + place * width, width * 0.88 / 100
            colour = SOFT if cell.state == "none" else INK
            text(x, y + 0.19, cell.text, 8, colour, bold=cell.state == "best")
            if cell.state != "none":
                look = {**_FILL[cell.state], "hatch": "////" if cell.few else None}
                axes.barh(y + 0.31, cell.length * unit, 0.11, left=x, **look)
                ends = [[(cell.length - cell.low) * unit], [(cell.high - cell.length) * unit]]
                at = x + cell.length * unit
                axes.errorbar(at, y + 0.31, xerr=ends, color=INK, capsize=2.5, elinewidth=0.9)
    y = ABOVE + len(chart.rows) * ROW + 0.2
    facts = ", ".join([*chart.facts, *(left_out for left_out, _ in chart.left_out)])
    for words in (KEY, f"{facts}. {', '.join(chart.versions)}."):
        for line in textwrap.wrap(words, _SIGNS):
            text(0, y, line, 6.5, SOFT)
            y += 0.13
    return figure
