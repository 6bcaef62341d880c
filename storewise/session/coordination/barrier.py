"""A barrier of jobs on several hosts that share nothing but a directory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from pathlib import Path

from storewise.atomic import write_aside
from storewise.errors import StorewiseError

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.05


class Barrier:
    """All of `parties` wait for each other under one `name` of a shared directory.

    A party arrives by renaming a file of its own into place and then lists the directory until
    all have arrived: no locks, no links, nothing that NFS does not do atomically. Opening a
    directory makes an NFS client ask the server whether it changed (close-to-open consistency),
    so each poll opens it anew. A name can be used once in the life of a directory. `clock` and
    `sleep` are in s.
    """

    def __init__(
        self,
        directory: Path,
        parties: Collection[str],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        for text in (name, *parties):
            if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
                raise ValueError(f"{text!r}: names of barriers and parties are file names here")
        self._directory = directory / "barriers" / name
        self._parties = frozenset(parties)
        self._name = name
        self._clock, self._sleep = clock, sleep

    def missing(self) -> list[str]:
        """The parties that have not arrived yet, sorted."""
        try:
            arrived = {path.name for path in self._directory.iterdir()}
        except FileNotFoundError:
            arrived = set()
        return sorted(self._parties.difference(arrived))

    def _arrive(self, me: str) -> None:
        # The shared directory itself is not made again: who removed it has ended the trial.
        self._directory.parent.mkdir(exist_ok=True)
        self._directory.mkdir(exist_ok=True)
        write_aside(self._directory / me, "")

    def wait(self, me: str, check: Callable[[], None], timeout: float | None = None) -> None:
        """Arrive as `me` and return when all have arrived.

        `check` is called at every poll (10-50 ms apart) and ends the wait by raising. After
        `timeout` seconds StorewiseError names the parties that did not come.
        """
        if me not in self._parties:
            raise ValueError(f"{me!r} is not a party of barrier {self._name!r}")
        try:
            self._arrive(me)
        except FileNotFoundError:
            check()  # knows why the directory has gone
            raise
        start = self._clock()
        pause = _FIRST_PAUSE
        while missing := self.missing():
            check()
            waited = self._clock() - start
            if timeout is not None and waited >= timeout:
                raise StorewiseError(
                    f"barrier {self._name}: after {waited:.0f} s "
                    f"{len(missing)} of {len(self._parties)} parties are missing: "
                    f"{', '.join(missing)}; their jobs may still be queued or have failed to start"
                )
            self._sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
