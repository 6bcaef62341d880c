"""A trial in a line: what it is called, and the rates of its phases."""

from __future__ import annotations

from pathlib import Path

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.text import number, setting
from storewise.analysis.files.parts import trial_files
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.reduction import Reduction
from storewise.analysis.measure.throughput import throughput
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.workloads.registry import workload

#: Phases in the words of who uses a store; the others are called what a study calls them.
_PHASES = {"write": "load", "read": "look up", "query": "questions"}
#: Columns of a trial's name, so that rates stand below each other.
_WIDTH = 34


def phase_name(phase: str) -> str:
    """The name of a phase on the terminal."""
    return _PHASES.get(phase, phase)


def trial_name(study: Study, trial: Trial) -> str:
    """A trial's name, as ``SQLite, 2 workers, repeat 3``: its engine and the levels of the
    factors that vary."""
    names = [
        name
        for name, levels in study.factors.items()
        if name != "engine" and name in trial.factors and len(levels) > 1
    ]
    repeat = f"repeat {trial.repeat}" if study.repeats > 1 else ""
    parts = (title(trial.engine), setting(trial.factors, names), repeat)
    return ", ".join(filter(None, parts))


def finished_line(study: Study, trial: Trial, directory: Path) -> str:
    """The line of a measured trial, from the files in its directory: the rate of each phase as the
    report has it, of several steps the highest."""
    name = f"ok   {trial_name(study, trial):<{_WIDTH}}"
    rates = _rates(trial, directory)
    parts = [f"{phase_name(phase)} {number(rate)}/s" for phase, rate in rates.items()]
    return "   ".join([name, *parts]).rstrip()


def failed_line(study: Study, trial: Trial, reason: str) -> str:
    """The line of a failed attempt at a trial."""
    return f"FAIL {trial_name(study, trial)}: {reason}"


def _rates(trial: Trial, directory: Path) -> dict[str, float]:
    """Documents/s of the loading phase, operations/s of the others."""
    try:
        rows = read_samples([trial_files(directory)]).rows
    except OSError:
        return {}  # somebody removes the results
    phases = [phase.name for phase in trial.phases]
    table = throughput(Reduction(rows))
    known, rates = workload(trial.workload).phases, {}
    for phase in phases:
        if trial.engine == BASELINE and known[phase].loads:
            continue  # the files store nothing
        measure = "documents_per_s" if known[phase].loads else "operations_per_s"
        of_phase = table[(table["phase"] == phase) & (table["measure"] == measure)]
        if len(of_phase):
            rates[phase] = float(of_phase["value"].max())
    return rates
