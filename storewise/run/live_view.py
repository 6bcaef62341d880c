"""What `storewise run` shows while it runs: a view that stays in one place on a terminal, plain
lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from storewise.watch.render import head_line


@dataclass(frozen=True, slots=True)
class LivePhase:
    """A phase of the trial that is being measured."""

    name: str
    state: str
    """``done``, ``now`` or ``next``."""
    rate: str = ""
    """What its workers do now, such as ``31,000 documents/s``."""


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial that is being measured."""

    name: str
    does: str
    """What it does where that is no phase, such as `verifying`; else empty."""
    phases: Sequence[LivePhase]


@dataclass(frozen=True, slots=True)
class Moment:
    """What a run does now."""

    study: str
    step: str = ""
    """What it does where no trial is measured."""
    done: int | None = None
    total: int | None = None
    seconds_left: float | None = None
    trials: Sequence[LiveTrial] = ()
    warnings: Sequence[str] = ()


class View(Protocol):
    """Where a run shows what it does."""

    def line(self, text: str, style: str = "") -> None:
        """A line that stays."""

    def note(self, text: str) -> None:
        """A message for the user."""

    def show(self, moment: Moment) -> None:
        """What goes on now, in place of what went on before."""


class PlainLines:
    """Without a terminal: lines, each at once. Notes go where messages do."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def line(self, text: str, style: str = "") -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        self._say(text)

    def show(self, moment: Moment) -> None:
        """Nothing: a log has no place that is written anew."""


class Screen:
    """On a terminal."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def line(self, text: str, style: str = "") -> None:
        self._live.console.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str) -> None:
        self.line(f"storewise: {text}", "yellow")

    def show(self, moment: Moment) -> None:
        self._live.update(picture(moment), refresh=True)


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


def picture(moment: Moment) -> RenderableType:
    """A moment for a terminal."""
    does = "" if moment.trials else moment.step
    head = head_line(moment.study, moment.done, moment.total, moment.seconds_left, does)
    lines: list[RenderableType] = [head]
    lines += [_trial(trial) for trial in moment.trials]
    lines += [
        Text(f"! {text}", style="yellow", no_wrap=True, overflow="ellipsis")
        for text in moment.warnings
    ]
    return Group(*lines)


def _trial(trial: LiveTrial) -> Text:
    line = Text(f"{trial.name}   ", no_wrap=True, overflow="ellipsis")
    styles = {"done": "green", "now": "bold", "next": "dim"}
    for place, phase in enumerate(trial.phases):
        line.append(" > " if place else "", "dim")
        line.append(" ".join(filter(None, (phase.name, phase.rate))), styles[phase.state])
    return line.append(f"   {trial.does}" if trial.does else "", "bold")
