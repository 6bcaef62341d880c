"""How far a long task has come: a bar on a terminal, lines of text elsewhere and in logs.

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
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

#: Seconds between two lines of text.
EVERY = 10.0

#: Called with what is done and what there is in all; None where that is not known.
Update = Callable[[int, int | None], None]


def lines(
    say: Callable[[str], object], what: str, *, size: bool = False, every: float = EVERY
) -> Update:
    """A line of text every `every` seconds; of bytes with `size`."""
    last = time.monotonic()

    def update(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last < every:
            return
        last = time.monotonic()
        amounts = [decimal(one) if size else str(one) for one in (done, total) if one is not None]
        say(f"{what}: {' of '.join(amounts)}")

    return update


@contextmanager
def shown(what: str, *, size: bool = False, every: float = EVERY) -> Iterator[Update]:
    """A bar on standard error that goes away at the end, of bytes with `size`; `lines` where that
    is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(
            lambda text: console.print(f"storewise: {text}", highlight=False, soft_wrap=True),
            what,
            size=size,
            every=every,
        )
        return
    amount: list[ProgressColumn] = (
        [DownloadColumn(), TransferSpeedColumn()] if size else [MofNCompleteColumn()]
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on standard error what is being done, where nobody knows how long it takes."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
        return
    console.print(f"storewise: {what}", highlight=False, soft_wrap=True)
    yield


@contextmanager
def saying(what: str, *, every: float = EVERY) -> Iterator[Callable[[str], None]]:
    """What a program says while it works: in one line of a terminal, elsewhere every `every`
    seconds, with how long it has worked.

    Called with the program's last words, often; from the thread that works.
    """
    console = Console(stderr=True)
    start = last = time.monotonic()

    def line(words: str) -> Text:
        return Text(f"storewise: {what}: {words} ({time.monotonic() - start:.0f} s)")

    if console.is_terminal:
        with console.status(line("starting")) as status:
            yield lambda words: status.update(line(words))
        return

    def update(words: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            console.print(line(words), soft_wrap=True)

    yield update
