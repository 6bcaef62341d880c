"""The display of `storewise run`: one screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text


class View:
    """The display of a run: on a terminal `live`, elsewhere lines, with notes told to `say`."""

    def __init__(self, say: Callable[[str], None], live: Live | None) -> None:
        self._say, self._live = say, live

    def line(self, text: str, style: str = "") -> None:
        """A line that stays."""
        if self._live is None:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        else:
            self._live.console.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str) -> None:
        """A message for the user."""
        if self._live is None:
            self._say(text)
        else:
            self.line(f"storewise: {text}", "yellow")

    def show(self, screen: RenderableType) -> None:
        """The state of the run, in place of the one before; a file cannot be written anew."""
        if self._live is not None:
            self._live.update(screen, refresh=True)


@contextmanager
def view_of(say: Callable[[str], None], *, plain: bool = False) -> Iterator[View]:
    """The view that suits standard output; a terminal is as it was when the block ends. `plain`
    where something else prints to it too."""
    console = Console(highlight=False)
    if plain or not sys.stdout.isatty() or console.is_dumb_terminal:
        yield View(say, None)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield View(say, live)
