"""How every figure looks: the colours, markers, hatches and lines of engines.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any common
colour blindness tell apart; markers, hatches and line styles carry the same distinction in black
and white.
"""

from __future__ import annotations

from collections.abc import Iterable

from storewise.analysis.common.engines import CEILING

#: Okabe-Ito without the yellow, which is too light for lines on white; then, for studies of more
#: than seven engines, the dark ones of Paul Tol's "muted" scheme (SRON/EPS/TN/09-002).
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99"),
)
#: What is of no engine.
GREY = "#7A7A7A"
#: What stands for colours of figures on a dark page, where they could not be told from it.
DARK = {
    "#0072B2": "#4AA3DF",
    "#000000": "#F0F0F0",
    "#882255": "#D4356F",
    "#332288": "#9C8CF2",
    "#7A7A7A": "#A6A6A6",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo", "||", "**", "OO", "//..")
#: Line styles as Plotly names them.
LINES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
SOLID, DASHED, DOTTED = 0, 1, 3


class Style:
    """Colour, marker and hatch of each engine: the same in all figures of a study."""

    def __init__(self, engines: Iterable[str]) -> None:
        names = sorted(set(engines) - {CEILING})
        self._place = {name: i for i, name in enumerate(names)}

    def colour(self, engine: str) -> str:
        if engine not in self._place:
            return GREY
        return COLOURS[self._place[engine] % len(COLOURS)]

    def marker(self, engine: str) -> str:
        return MARKERS[self._place[engine] % len(MARKERS)] if engine in self._place else "*"

    def hatch(self, engine: str) -> str:
        return HATCHES[self._place[engine] % len(HATCHES)] if engine in self._place else "---"
