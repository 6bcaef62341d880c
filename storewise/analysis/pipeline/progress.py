"""How far the reading of a large study has come, for who waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from storewise.analysis.pipeline.parallel import Progress

#: Seconds of silence: what takes no longer needs no word.
QUIET = 10.0


def tenths(
    say: Callable[[str], object],
    quiet: float = QUIET,
    words: str = "read {done} of {total} trials",
) -> Progress:
    """A line of text for each tenth of the work, from `quiet` seconds on after this call."""
    begin, told = time.monotonic(), 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = done * 10 // max(1, total)
        if now > told and time.monotonic() - begin >= quiet:
            say(f"{words.format(done=done, total=total)} ({10 * now} %)")
        told = max(now, told)

    return tell


@contextmanager
def shown(quiet: float = QUIET) -> Iterator[Progress]:
    """A bar on the terminal, from `quiet` seconds on; lines of text where standard error is none.

    It goes away when reading has ended.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield tenths(lambda text: console.print(f"storewise: {text}", highlight=False), quiet)
        return
    columns = (TextColumn("Reading trials"), BarColumn(), MofNCompleteColumn())
    bar = Bar(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task("trials", total=None)
    begin = time.monotonic()

    def tell(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if time.monotonic() - begin >= quiet:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()
