"""``storewise watch``: what a study's run does, in a terminal, while it runs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from storewise.cli.console import RESULTS, Results, results_of

#: Seconds between two frames.
EVERY = 1.0


def watch(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study, its name below results/, or a directory of results; default: what runs."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One frame, then end.")] = False,
    results: Results = RESULTS,
) -> None:
    """Follow a run: trials done and left with the time they will take, operations per second of
    each worker and node, live sessions, failures, the end of the newest log.

    It only reads, and never disturbs the run. It ends with the run, or by Ctrl-C. Where standard
    output is no terminal it shows one frame.

    Example: `storewise watch`, or `storewise watch demo --once`
    """
    from rich.console import Console
    from rich.live import Live

    from storewise.watch.render import screen
    from storewise.watch.snapshot import Seen, look

    directory, seen = results_of(study, results), Seen()
    console = Console(highlight=False)
    if once or not console.is_terminal:
        console.print(screen(look(directory, seen)))
        return
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                frame = look(directory, seen)
                live.update(screen(frame), refresh=True)
                if frame.over:
                    return
                time.sleep(EVERY)
    except KeyboardInterrupt:
        return
