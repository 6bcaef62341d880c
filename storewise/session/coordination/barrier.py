"""A barrier of jobs on several hosts that share nothing but a directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from storewise.atomic import holds, write_aside

#: Below a trial's live directory.
BARRIERS = "barriers"
#: Below that: a file for each barrier that all have reached.
OPEN = "open"
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.05
#: A thousand parties look four times a second each: their shared file system has other work.
_PAUSE_A_PARTY = 0.00025


def pause_of(parties: int) -> float:
    """Seconds between two looks at a file for which `parties` jobs wait."""
    return max(_LONGEST_PAUSE, _PAUSE_A_PARTY * parties)


class Barrier:
    """All of `parties` wait for each other under one `name` of a shared directory.

    A party arrives by renaming a file of its own into place. The first party counts those that have
    come; the others look for the one file that it leaves when all have: if each counted, a thousand
    parties would list a million names at each look. No locks, no links, nothing that NFS does not
    do atomically. Opening a directory makes an NFS client ask the server whether it changed
    (close-to-open consistency), so each look lists one anew. A name can be used once in the life of
    a directory; names are file names. `sleep` is in s.
    """

    def __init__(
        self,
        directory: Path,
        parties: Sequence[str],
        name: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._directory = directory / BARRIERS / name
        self._open = directory / BARRIERS / OPEN / name
        self._counts = parties[0]
        self._parties = frozenset(parties)
        self._pause = pause_of(len(parties))
        self._sleep = sleep

    def missing(self) -> list[str]:
        """The parties that have not arrived yet, sorted."""
        return sorted(self._parties - {path.name for path in self._directory.glob("*")})

    def wait(self, me: str, check: Callable[[], None]) -> None:
        """Arrive as `me` and return when all have arrived.

        `check` is called at every look (10-50 ms apart, more with hundreds of parties) and ends the
        wait by raising.
        """
        try:
            # The shared directory itself is not made again: who removed it has ended the trial.
            self._directory.parent.mkdir(exist_ok=True)
            for directory in (self._directory, self._open.parent):
                directory.mkdir(exist_ok=True)
            write_aside(self._directory / me, "")
        except FileNotFoundError:
            check()  # knows why the directory has gone
            raise
        pause = _FIRST_PAUSE
        while not self._all_have_come(me):
            check()
            self._sleep(pause)
            pause = min(self._pause, pause * 1.5)

    def _all_have_come(self, me: str) -> bool:
        if me != self._counts:
            return holds(self._open.parent, self._open.name)
        if self.missing():
            return False
        self._open.touch()
        return True
