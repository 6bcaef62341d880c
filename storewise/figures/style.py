"""Style of all figures: one colour and marker for each engine, in every study.

The colours are fixed, so that a reader who has seen one report knows them in the next. They were
searched with a simulation of colour blindness (Machado, Oliveira & Fernandes, IEEE TVCG 15(6),
2009, severity 1): any two differ by 11 or more in CIEDE2000 for readers without red, green or blue
cones, on a light ground and on a dark one.
Markers, names of rows and line styles carry the same distinction in black and white.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storewise.engines.registry import ENGINES

#: Colour of series without an engine.
GREY = "#7A7A7A"
INK, GRID = "#000000", "#DDDDDD"


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and marker of an engine; `dark` is its colour on a dark page."""

    colour: str
    dark: str
    marker: str


_OTHER = Look(GREY, "#A6A6A6", "*")
_LOOKS = (
    # The client's ceiling and the files themselves are no stores: grey.
    Look("#9A9A9A", "#8A8A8A", "|"),
    Look("#4A4A4A", "#E4E4E4", "d"),
    Look("#334EFF", "#0078FF", "o"),
    Look("#997100", "#FFE4A6", "s"),
    Look("#2D805E", "#29CCA8", "^"),
    Look("#B400C3", "#C3D278", "8"),
    Look("#7C5380", "#B274AB", "D"),
    Look("#4C130F", "#E68A73", "v"),
    Look("#8CB23E", "#D1FF00", "P"),
    Look("#00AAFF", "#A6E2FF", "X"),
    Look("#E65076", "#E63B2E", "<"),
    Look("#2A0080", "#B5A6FF", ">"),
    Look("#C070B0", "#B030A0", "h"),
    Look("#803900", "#CCB300", "p"),
)
#: Engine -> colour and marker, in the order of the registry; further engines are grey.
LOOKS: Mapping[str, Look] = dict(zip(ENGINES, _LOOKS, strict=False))
#: Line styles, for settings of one engine.
LINES: Sequence[Any] = ("-", "--", "-.", ":", (0, (8, 3)), (0, (8, 3, 2, 3)))
SOLID, DASHED, DOTTED = 0, 1, 3


def look(engine: str) -> Look:
    """The colour and marker of an engine, the same in every study; unknown engines are grey."""
    return LOOKS.get(engine, _OTHER)


#: Colour on a light page -> colour on a dark page.
DARK: Mapping[str, str] = {one.colour: one.dark for one in (_OTHER, *LOOKS.values())}


def page_colour(engine: str) -> str:
    """The colour of an engine on the page, light or dark."""
    return themed(look(engine).colour)


def themed(colour: str) -> str:
    """A colour as CSS, which changes to that of DARK on a dark page."""
    return f"var(--c{colour[1:]},{colour})" if colour in DARK else colour


def page_colours() -> str:
    """CSS variables for `themed`: dark by the reader's choice on the page or by the system."""
    both = (f"--c{light[1:]}: light-dark({light}, {dark});" for light, dark in DARK.items())
    return f":root {{ {' '.join(both)} }}"
