"""A barrier of jobs on several hosts that share nothing but a directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from storewise.atomic import write_aside

#: Below a trial's live directory.
BARRIERS = "barriers"
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.05


class Barrier:
    """All of `parties` wait for each other under one `name` of a shared directory.

    A party arrives by renaming a file of its own into place and then lists the directory until
    all have arrived: no locks, no links, nothing that NFS does not do atomically. Opening a
    directory makes an NFS client ask the server whether it changed (close-to-open consistency),
    so each poll opens it anew. A name can be used once in the life of a directory; names are file
    names. `sleep` is in s.
    """

    def __init__(
        self,
        directory: Path,
        parties: Collection[str],
        name: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._directory = directory / BARRIERS / name
        self._parties = frozenset(parties)
        self._sleep = sleep

    def missing(self) -> list[str]:
        """The parties that have not arrived yet, sorted."""
        return sorted(self._parties - {path.name for path in self._directory.glob("*")})

    def wait(self, me: str, check: Callable[[], None]) -> None:
        """Arrive as `me` and return when all have arrived.

        `check` is called at every poll (10-50 ms apart) and ends the wait by raising.
        """
        try:
            # The shared directory itself is not made again: who removed it has ended the trial.
            self._directory.parent.mkdir(exist_ok=True)
            self._directory.mkdir(exist_ok=True)
            write_aside(self._directory / me, "")
        except FileNotFoundError:
            check()  # knows why the directory has gone
            raise
        pause = _FIRST_PAUSE
        while self.missing():
            check()
            self._sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
