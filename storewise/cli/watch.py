"""``storewise watch``: what a study's run does, in a terminal, while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from storewise.cli.console import RESULTS, Results
from storewise.errors import ResultError
from storewise.layout import RECORD
from storewise.session.coordination.run import lease_files, looks_stale

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

    directory, seen = find(study, results), Seen()
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


def find(study: str | None, results: Path) -> Path:
    """The directory of results that is meant.

    A directory, a name below `results`, a study that `storewise run` would take; None: what runs
    below `results`, else what ran last. Raises ResultError where that is none, or several run.
    """
    known = sorted(path for path in results.glob("*/") if path.is_dir())
    if study is not None:
        # A study has the name of its file.
        for path in (Path(study), results / study, results / Path(study).stem):
            if path.is_dir():
                return path
        names = ", ".join(path.name for path in known) or "none"
        raise ResultError(
            f"{study}: there are no results of such a study: no directory of that name here or "
            f"below {results}, which has {names}"
        )
    live = [path for path in known if not all(map(looks_stale, lease_files(path)))]
    if len(live) > 1:
        names = ", ".join(path.name for path in live)
        raise ResultError(f"several studies run below {results}: name one of {names}")
    if live:
        return live[0]
    records = [path / RECORD for path in known if (path / RECORD).is_file()]
    if not records:
        raise ResultError(f"nothing runs or has run below {results}; name a directory of results")
    return max(records, key=lambda path: path.stat().st_mtime).parent
