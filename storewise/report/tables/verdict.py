"""The verdict's table on the page: choices by criteria, each cell with figure, interval, rank and
source, and the weighted score of all criteria that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.breakeven import times_asked
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criteria import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.scores import Score
from storewise.report.data.rows import source_label
from storewise.report.tables.cells import Cell, Table, text_cell

#: The judged table that is shown here and not among the others.
NAME = "verdict"
_CAPTION = (
    "Choices by criteria: the best measured configuration of each with its 95 % interval; choices "
    "that do not differ share a rank"
)
_NONE = Cell("not measured", -math.inf, True)


def verdict_tables(found: Verdict) -> list[Table]:
    """The table of the verdict; none where nothing could be judged."""
    if not found.criteria:
        return []
    files = title(BASELINE)
    scores = {score.choice: score for score in found.scores}
    choices = list(dict.fromkeys(s.label for c in found.criteria for s in c.standings))
    # By score, the best first; those without one in the order of the first criterion.
    order = {score.choice: place for place, score in enumerate(found.scores)}
    choices.sort(key=lambda name: order.get(name, len(order)))
    asked = bool(found.pays)
    if asked:
        # The baseline first: what one has without any store; then those that pay soonest.
        choices.sort(key=lambda name: (name != files, found.pays.get(name, math.inf)))
    by_name = {c.name: {s.label: s for s in c.standings} for c in found.criteria}
    rows = []
    for name in choices:
        cells = [text_cell(name)]
        if scores:
            cells.append(_score(scores.get(name)))
        for criterion in found.criteria:
            standing = by_name[criterion.name].get(name)
            if standing is not None:
                cells.append(_standing(criterion, standing))
            elif name == files and criterion.name == "load":
                cells.append(Cell("nothing to load", math.inf, True))
            else:
                cells.append(_NONE)
        if asked:
            cells.append(_pays(name, found))
        rows.append(cells)
    heads = ["choice", *(["score"] if scores else []), *map(_head, found.criteria)]
    if asked:
        heads.append("pays from so many questions on (of the kind that pays soonest)")
    return [Table("verdict-table", _CAPTION, heads, rows)]


def _head(criterion: Criterion) -> str:
    unit = "" if criterion.unit in ("", "1", "s") else f", {criterion.unit}"
    weight = f", weight {criterion.weight:.0%}" if criterion.weight else ""
    return f"{criterion.title}{unit.replace('10^6', 'million')}{weight}"


def _standing(criterion: Criterion, standing: Standing) -> Cell:
    # A time has the unit that suits it; of all others the heading has the unit.
    show = seconds if criterion.unit == "s" else number
    notes = _interval(standing.estimate, show)
    # Said in words too: not everybody sees what is bold.
    notes = [_rank(standing.rank)] * bool(standing.rank) + notes
    notes += [text for text in (standing.configuration, standing.note) if text]
    source = f"{criterion.table}:{standing.source_row}" if standing.source_row else ""
    label = source_label(source) if source else ""
    mean = standing.estimate.mean
    text = show(mean) if mean else "0"
    return Cell(text, mean, True, "; ".join(notes), source, label, best=standing.leads)


def _interval(estimate: Estimate, show: Callable[[float], str] = number) -> list[str]:
    if not estimate.known():
        return ["no interval"]
    if not estimate.high > estimate.low:
        return []
    one = " (one run)" if estimate.resampled in ("seconds", "operations") else ""
    return [f"{show(estimate.low)} to {show(estimate.high)}{one}"]


def _score(score: Score | None) -> Cell:
    """The weighted score as a multiple of the best choice's."""
    if score is None:
        return Cell("–", -math.inf, True)
    notes: Sequence[str] = [
        *([_rank(score.rank)] if score.rank else ["not of all criteria"]),
        *_interval(score.relative),
    ]
    mean = score.relative.mean
    return Cell(number(mean), mean, True, "; ".join(notes), best=score.rank == 1)


def _rank(rank: int) -> str:
    return f"rank {rank}" + (", best" if rank == 1 else "")


def _pays(name: str, found: Verdict) -> Cell:
    pays = found.pays.get(name)
    words = "the baseline" if name == title(BASELINE) else "–"
    if pays is not None:
        words = times_asked(pays)
    return Cell(words, -math.inf if pays is None else pays, True)
