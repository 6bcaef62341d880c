"""A frame of `storewise watch` for a terminal."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from storewise.analysis.common.text import binary, number
from storewise.watch.snapshot import Frame, JobStatus, trial_of

#: Columns of the bar of trials, where the terminal has room.
_BAR = 30
#: Jobs of a trial that are shown one by one.
MAX_JOBS = 32


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def head_line(
    study: str, done: int | None, total: int | None, seconds_left: float | None, does: str
) -> RenderableType:
    """The first line of a run: finished trials, time left, and current activity."""
    cells: list[RenderableType] = [Text(study, style="bold")]
    if done is not None and total:
        bar = ProgressBar(total, done, _BAR, complete_style="green", finished_style="green")
        cells.append(bar)
        cells.append(Text(f"{done}/{total} trials", no_wrap=True))
        if seconds_left is not None and done < total:
            cells.append(Text(f"about {duration(seconds_left)} left", no_wrap=True))
    if does:
        cells.append(Text(does, no_wrap=True, overflow="ellipsis"))
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_row(*cells)
    return head


def state_words(frame: Frame) -> str:
    """The state of the run, in a sentence."""
    record = frame.record
    if frame.state == "runs":
        # The clock of the run's host may be ahead of this host's.
        return f"runs since {duration(max(0.0, frame.at - record.started))}" if record else "runs"
    if frame.state == "between":
        return "between two passes"
    if frame.state == "killed" and record is not None:
        return (
            f"nothing runs; the last run, {record.run}, was killed or its host was lost: "
            "`storewise run` goes on with what is missing"
        )
    if record is not None and record.ended is not None:
        at = datetime.datetime.fromtimestamp(record.ended).astimezone()
        words = record.reason or "in order"
        return f"nothing runs; the last run ended {at:%Y-%m-%d %H:%M:%S}: {words}"
    return "nothing runs"


def screen(frame: Frame) -> RenderableType:
    """The frame as text for a terminal; a low terminal gets the first lines only."""
    gone, left = frame.done + len(frame.failed), None if frame.over else frame.seconds_left
    parts = [
        head_line(frame.study, gone, frame.total, left, ""),
        Text(f"{frame.directory}: {state_words(frame)}"),
    ]
    troubles = [f"failed attempt: {one.trial}: {one.reason}" for one in frame.failures]
    troubles += [f"given up: {', '.join(frame.failed)}"] if frame.failed else []
    parts += [Text(f"! {text}", style="yellow") for text in (*troubles, *frame.warnings)]
    for session in frame.sessions:
        trial = trial_of(session)
        does = f"ends: {session.ending}" if session.ending else session.phase
        parts.append(Text(f"\n{trial}   {does}   {duration(session.age)}", style="bold"))
        parts.append(_jobs(frame, trial))
    if frame.log is not None and frame.lines:
        parts.append(Text(f"\n{frame.log.parent.name}/{frame.log.name}", style="dim"))
        parts += [
            Text(f"  {text}", style="dim", no_wrap=True, overflow="ellipsis")
            for text in frame.lines
        ]
    return Group(*parts)


def _jobs(frame: Frame, trial: str) -> Table:
    """A line for each worker and node of a trial; in a narrow terminal only the host is cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("job", no_wrap=True)
    table.add_column("host", no_wrap=True, overflow="ellipsis")
    table.add_column("", no_wrap=True)
    for name in ("ops/s", "docs/s", "CPU", "memory", "written/s"):
        table.add_column(name, justify="right", no_wrap=True)
    # Operations/s by the node that answered, over all workers that can tell.
    answered: Counter[str] = Counter()
    for one in frame.jobs:
        answered.update(one.progress.owners if one.fresh else {})
    jobs = [one for one in frame.jobs if one.trial == trial]
    for one in jobs[:MAX_JOBS]:
        table.add_row(*_job(one, answered))
    if len(jobs) > MAX_JOBS:
        table.add_row(f"and {len(jobs) - MAX_JOBS} more")
    return table


def _job(one: JobStatus, answered: Mapping[str, float]) -> list[str]:
    job, figures = one.progress, one.progress.figures
    if not one.fresh:
        return [job.job, job.host, f"silent for {one.age:.0f} s"]
    node = job.state == "serves"
    rate = answered.get(job.job) if node else job.operations_per_s
    cpu = figures.get("store_cpu" if node else "client_cpu")
    return [
        job.job,
        job.host,
        f"{job.state}, step {job.step}" if job.step else job.state,
        number(rate) if rate else "",
        number(job.documents_per_s) if job.documents_per_s else "",
        f"{cpu:.2f}" if cpu is not None else "",
        binary(figures["store_rss"]) if "store_rss" in figures else "",
        binary(figures["disk_write"]) if "disk_write" in figures else "",
    ]
