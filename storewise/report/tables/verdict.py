"""The verdict's table on the page: choices by criteria, each cell with figure, interval, rank and
source, and the weighted score of all criteria that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import count, number, seconds
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict
from storewise.report.data.rows import source_label
from storewise.report.tables.cells import Cell, Table, text_cell
from storewise.study.criteria import INODES

_CAPTION = (
    "Stores by criteria, each with the deployment that it is judged with; the interval is that of "
    "its ratio to the best store"
)
_NONE = Cell("not measured", -math.inf, True)


def verdict_tables(verdict: Verdict) -> list[Table]:
    """The table of the verdict; none where nothing could be judged."""
    if not verdict.criteria:
        return []
    files = title(BASELINE)
    choices = list(dict.fromkeys(s.label for c in verdict.criteria for s in c.standings))
    # By score, the best first; those without one in the order of the first criterion.
    order = {store: place for place, store in enumerate(verdict.decision.table.index)}
    choices.sort(key=lambda name: (name != files, order.get(name, len(order))))
    scores = dict(zip(verdict.decision.table.index, records(verdict.decision.table), strict=True))
    heads, cells = ["choice"], [[text_cell(name)] for name in choices]

    def add(head: str, cell: Callable[[str], Cell]) -> None:
        heads.append(head)
        for name, row in zip(choices, cells, strict=True):
            row.append(cell(name))

    if scores:
        add("score", lambda name: _score(scores.get(name)))
    for criterion in verdict.criteria:
        unit = "" if criterion.unit in ("", "1", "s", INODES) else f", {criterion.unit}"
        weight = f", weight {criterion.weight:.0%}" if criterion.weight else ""
        add(
            f"{criterion.title}{unit.replace('10^6', 'million')}{weight}",
            partial(_standing, criterion, {s.label: s for s in criterion.standings}),
        )
    return [Table("verdict-table", _CAPTION, heads, cells)]


def _standing(criterion: Criterion, standings: Mapping[str, Standing], name: str) -> Cell:
    standing = standings.get(name)
    if standing is None:
        nothing = name == title(BASELINE) and criterion.name == "load"
        return Cell("nothing to load", math.inf, True) if nothing else _NONE
    # A time has the unit that suits it; of all others the heading has the unit.
    show = {"s": seconds, INODES: count}.get(criterion.unit, number)
    notes = _interval(standing.estimate, show)
    # Said in words too: not everybody sees what is bold.
    notes = [_rank(standing.rank)] * bool(standing.rank) + notes
    notes = ["single run: not judged"] * standing.single + notes
    notes += [text for text in (standing.where, standing.note) if text]
    source = f"{criterion.table}:{standing.source_row}" if standing.source_row else ""
    label = source_label(source) if source else ""
    mean = standing.estimate.mean
    text = show(mean) if mean else "0"
    return Cell(text, mean, True, "; ".join(notes), source, label, best=standing.leads)


def _interval(estimate: Estimate, show: Callable[[float], str] = number) -> list[str]:
    if not estimate.known() or not estimate.high > estimate.low:
        return []
    return [f"{show(estimate.low)} to {show(estimate.high)}"]


def _score(score: Mapping[str, Any] | None) -> Cell:
    """The weighted score as a multiple of the best store's."""
    if score is None:
        return Cell("–", -math.inf, True)
    notes = []
    if math.isfinite(score["low"]):
        notes.append(f"{number(score['low'])} to {number(score['high'])}")
    return Cell(number(score["score"]), score["score"], True, "; ".join(notes), best=score["named"])


def _rank(rank: int) -> str:
    return "best or not told apart" if rank == 1 else "behind"
