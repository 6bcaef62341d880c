"""Progress of a long task: a bar on a terminal, lines of text elsewhere and in logs.

Libraries take a callback and call it with how much is done, of how much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from storewise.cli.console import say

#: Seconds between two lines of text.
LINE_SECONDS = 10.0

#: Called with how much is done, and of how much (None where that is not known).
Update = Callable[[int, int | None], None]


def lines(say: Callable[[str], object], what: str, *, size: bool = False) -> Update:
    """A line of text every `LINE_SECONDS`; with `size` the numbers are bytes."""
    tell = _now_and_then(say, what)

    def update(done: int, total: int | None) -> None:
        amounts = [decimal(one) if size else str(one) for one in (done, total) if one is not None]
        tell(" of ".join(amounts))

    return update


def _now_and_then(say: Callable[[str], object], what: str) -> Callable[[str], None]:
    """A function that says its text if `LINE_SECONDS` have passed since the last line."""
    last = time.monotonic()

    def tell(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            say(f"{what}: {text}")

    return tell


@contextmanager
def shown(what: str, *, size: bool = False) -> Iterator[Update]:
    """A bar on standard error that goes away at the end; `lines` where that is no terminal."""
    if not Console(stderr=True).is_terminal:
        yield lines(say, what, size=size)
        return
    amount = (DownloadColumn(), TransferSpeedColumn()) if size else (MofNCompleteColumn(),)
    with _bar(what, BarColumn(), *amount, TimeRemainingColumn()) as (bar, task):
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say on standard error what is being done, where nobody knows how long it takes.

    The function that it yields adds what a program says meanwhile; it may be called often.
    """
    if not Console(stderr=True).is_terminal:
        say(what)
        yield _now_and_then(say, what)
        return
    with _bar(what, TimeElapsedColumn()) as (bar, task):
        yield lambda text: bar.update(task, description=f"{what}: {text}")


@contextmanager
def _bar(what: str, *columns: ProgressColumn) -> Iterator[tuple[Progress, TaskID]]:
    text = TextColumn("{task.description}", markup=False)
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), text, *columns, console=console, transient=True) as bar:
        yield bar, bar.add_task(what, total=None)
