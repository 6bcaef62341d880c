"""Follow a run: show its state, a line for each trial that ends, and the messages for the user."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import RenderableType

from storewise.errors import ResultError
from storewise.layout import TRIALS
from storewise.run.live_view import View
from storewise.run.run_log import RunLog
from storewise.run.trial_line import failed_line, finished_line
from storewise.study.study import Study
from storewise.watch.render import head_line, screen
from storewise.watch.snapshot import Frame, Seen, look

#: Seconds between two looks.
MIN_PAUSE, MAX_PAUSE = 1.0, 20.0
#: Between these limits, a pause is so many times as long as the CPU time of a look, so that looking
#: takes no more than 2 % of a core from what is measured.
PAUSE_FACTOR = 50
#: The beginning of a line of a job's log: time and level.
_LOG_PREFIX = re.compile(r"\S+ \S+ (?:INFO|WARNING|ERROR) ")
#: What the workflow says of a trial that failed, or was not begun because another one did.
_FAILED = re.compile(r"trial (?P<trial>\S+) (?P<how>ended|was not opened): (?P<reason>.+)")


class Follower:
    """Looks at one run again and again."""

    def __init__(
        self,
        study: Study,
        results: Path,
        log: RunLog,
        view: View,
        *,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._study, self._results, self._log, self._view = study, results, log, view
        self._trials = {trial.id: trial for trial in study.trials()}
        self._clock = clock
        self._seen = Seen()
        self._first_log = _newest_log(self._frame())
        self.stopping = False
        """Whether the user has asked for the end."""
        self._shown = {(name, self._opened(name)) for name in self._seen.durations}

    def look(self) -> float:
        """Show what is new; returns the seconds until the next look."""
        began = self._clock()
        for note in self._log.new_notes():
            self._show_note(note)
        frame = self._frame()
        self._view.show(self._screen(frame))
        pause = PAUSE_FACTOR * (self._clock() - began)
        if frame is not None:
            self._show_finished(frame)
        return min(max(MIN_PAUSE, pause), MAX_PAUSE)

    def _show_note(self, note: str) -> None:
        failed = _FAILED.fullmatch(note)
        if failed is None:
            self._view.note(note)
        elif failed["how"] == "ended" and (trial := self._trials.get(failed["trial"])):
            self._view.line(failed_line(self._study, trial, failed["reason"]), "red")

    def _screen(self, frame: Frame | None) -> RenderableType:
        """The screen of `storewise watch` once the run is recorded; before, what the run does."""
        if self.stopping:
            return head_line(self._study.name, None, None, None, "ending the trials that run")
        if frame is not None and not frame.over:
            return screen(frame)
        return head_line(self._study.name, None, None, None, self._step(frame))

    def _step(self, frame: Frame | None) -> str:
        """The present step of a run without live trials: the job that wrote to its log last."""
        log = _newest_log(frame)
        if log is None or log == self._first_log:
            return "planning the jobs"
        path, lines = log
        return ": ".join([path.stem, *(_LOG_PREFIX.sub("", line) for line in lines[-1:])])

    def _frame(self) -> Frame | None:
        try:
            return look(self._results, self._seen)
        except (ResultError, OSError):
            return None  # nothing has run here yet, or a file has gone while it was read

    def _opened(self, name: str) -> int:
        """Unix time when a measured trial was opened: tells the trial from an earlier one, though
        a copy or Snakemake gives its files other times."""
        at, seconds = self._seen.durations[name]
        return round(at - (seconds or 0.0))

    def _show_finished(self, frame: Frame) -> None:
        for name in sorted(self._seen.durations, key=lambda one: self._seen.durations[one][0]):
            life = (name, self._opened(name))
            if name in frame.running or name not in self._trials or life in self._shown:
                continue
            self._shown.add(life)
            directory = self._results / TRIALS / name
            self._view.line(finished_line(self._study, self._trials[name], directory))


def _newest_log(frame: Frame | None) -> tuple[Path, Sequence[str]] | None:
    return (frame.log, frame.lines) if frame is not None and frame.log is not None else None
