"""A run as it goes: what its results and its messages say is new, brought to a view."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from storewise.analysis.common.text import number
from storewise.errors import ResultError
from storewise.layout import TRIALS
from storewise.run.live_view import LivePhase, LiveTrial, Moment, View
from storewise.run.run_log import RunLog
from storewise.run.trial_line import failed_line, finished_line, phase_name, trial_name
from storewise.session.coordination.listing import LiveSession
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.watch.snapshot import Frame, Seen, look, trial_of
from storewise.workloads.registry import workload

#: Seconds between two looks, at least and at most; between these as many times as long as a look
#: keeps a processor busy, so that nobody measures the view.
EVERY, SELDOM = 1.0, 20.0
SHARE = 50
MAX_WARNINGS = 2
#: The beginning of a line of a job's log: when, and how grave.
_MARK = re.compile(r"\S+ \S+ (?:INFO|WARNING|ERROR) ")
#: What the workflow says of a trial that failed, or was not begun because another one did.
_FAILED = re.compile(r"trial (?P<trial>\S+) (?P<how>ended|was not opened): (?P<reason>.+)")
#: What a trial does beside its phases, by what its session calls it.
_BESIDE = {"opened": "starting", "form": "forming its cluster", "verify": "verifying"}


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
        self._logged = self._newest_log(self._frame())
        self.stopping = False
        """Whether the user has asked for the end."""
        self._told = {(name, self._opened(name)) for name in self._seen.durations}

    def look(self) -> float:
        """Tell what is new; returns the seconds until the next look."""
        began = self._clock()
        for note in self._log.new_notes():
            self._tell(note)
        frame = self._frame()
        self._view.show(self._moment(frame))
        pause = SHARE * (self._clock() - began)
        if frame is not None:
            self._finished(frame)
        return min(max(EVERY, pause), SELDOM)

    def _tell(self, note: str) -> None:
        failed = _FAILED.fullmatch(note)
        if failed is None:
            self._view.note(note)
        elif failed["how"] == "ended" and (trial := self._trials.get(failed["trial"])):
            self._view.line(failed_line(self._study, trial, failed["reason"]), "red")

    def _newest_log(self, frame: Frame | None) -> tuple[Path, Sequence[str]] | None:
        return (frame.log, frame.lines) if frame is not None and frame.log is not None else None

    def _step(self, frame: Frame | None) -> str:
        """What the run does where no trial is measured: the job that wrote to its log last."""
        if self.stopping:
            return "ending the trials that run"
        newest = self._newest_log(frame)
        if newest is None or newest == self._logged:
            return "planning the jobs"
        log, lines = newest
        return ": ".join([log.stem, *(_MARK.sub("", line) for line in lines[-1:])])

    def _frame(self) -> Frame | None:
        try:
            return look(self._results, self._seen)
        except (ResultError, OSError):
            return None  # nothing has run here yet, or a file has gone while it was read

    def _opened(self, name: str) -> int:
        """When a measured trial was opened, Unix time: what tells it from one of before, although a
        copy or Snakemake gives its files other times."""
        at, seconds = self._seen.durations[name]
        return round(at - (seconds or 0.0))

    def _finished(self, frame: Frame) -> None:
        for name in sorted(self._seen.durations, key=lambda one: self._seen.durations[one][0]):
            life = (name, self._opened(name))
            if name in frame.running or name not in self._trials or life in self._told:
                continue
            self._told.add(life)
            directory = self._results / TRIALS / name
            self._view.line(finished_line(self._study, self._trials[name], directory))

    def _moment(self, frame: Frame | None) -> Moment:
        step = self._step(frame)
        if frame is None or frame.state not in ("runs", "between"):
            return Moment(self._study.name, step)
        live = [
            self._live(self._trials[trial_of(session)], session, frame)
            for session in frame.sessions
            if trial_of(session) in self._trials
        ]
        return Moment(
            self._study.name,
            step,
            frame.done + len(frame.failed),
            frame.total,
            frame.seconds_left,
            [] if self.stopping else live,
            [_MARK.sub("", text) for text in frame.warnings[-MAX_WARNINGS:]],
        )

    def _live(self, trial: Trial, session: LiveSession, frame: Frame) -> LiveTrial:
        known = workload(trial.workload).phases
        works = [w.progress for w in frame.jobs if w.trial == trial.id and w.fresh]
        names = [phase.name for phase in trial.phases]
        directory, phases = self._results / TRIALS / trial.id, []
        for name in names:
            each = [
                one.documents_per_s if known[name].loads else one.operations_per_s
                for one in works
                if one.job.startswith(f"{name}.")
            ]
            over = not each and (directory / f"{name}.0.parquet").exists()
            rate = f"{number(sum(each))}/s" if sum(each) else ""
            state = "now" if each else "done" if over else "next"
            phases.append(LivePhase(phase_name(name), state, rate))
        does = f"ends: {session.ending}" if session.ending else _BESIDE.get(session.phase, "")
        return LiveTrial(trial_name(self._study, trial), does, phases)
