"""The display of `storewise run`: one screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text


class View(Protocol):
    """The display of a run."""

    def line(self, text: str, style: str = "") -> None:
        """A line that stays."""

    def note(self, text: str) -> None:
        """Print a message for the user."""

    def show(self, screen: RenderableType) -> None:
        """The state of the run, in place of the one before."""


class PlainLines:
    """Without a terminal: lines, each at once. Notes go where messages do."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def line(self, text: str, style: str = "") -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        self._say(text)

    def show(self, screen: RenderableType) -> None:
        """Nothing: a file or a pipe cannot be written anew."""


class Screen:
    """On a terminal."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def line(self, text: str, style: str = "") -> None:
        self._live.console.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str) -> None:
        self.line(f"storewise: {text}", "yellow")

    def show(self, screen: RenderableType) -> None:
        self._live.update(screen, refresh=True)


@contextmanager
def view_of(say: Callable[[str], None], *, plain: bool = False) -> Iterator[View]:
    """The view that suits standard output; a terminal is as it was when the block ends. `plain`
    where something else prints to it too."""
    console = Console(highlight=False)
    if plain or not sys.stdout.isatty() or console.is_dumb_terminal:
        yield PlainLines(say)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Screen(live)
