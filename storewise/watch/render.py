"""A frame of `storewise watch` for people, in one line, and as plain data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from storewise.analysis.common.frames import json_value
from storewise.analysis.common.text import binary, number
from storewise.watch.snapshot import LINES, Frame, Teller, trial_of
from storewise.watch.time_left import Left

#: Workers and nodes that are shown one by one; of more workers the busiest.
MOST = 16
#: Unix time beyond which a file has no time (the year 3000).
_LATEST = 32_503_680_000.0


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def state_words(frame: Frame) -> str:
    """What the run does, in a sentence."""
    record = frame.record
    if frame.state == "runs":
        # The clock of the run's host may be ahead of this host's.
        ran = None if record is None else max(0.0, frame.at - record.started)
        since = f", since {duration(ran)}" if ran is not None else ""
        lease = "" if frame.lease_age is None else f"; lease renewed {frame.lease_age:.0f} s ago"
        return f"runs{since}{lease}"
    if frame.state == "between":
        return "between two passes of Snakemake"
    if frame.state == "killed" and record is not None:
        return (
            f"nothing runs; the last run, {record.run}, was killed or its host was lost: it never "
            f"said that it ended. `storewise run` goes on with what is missing"
        )
    if record is not None and record.ended is not None:
        how = record.reason or "in order"
        return f"nothing runs; the last run ended {_moment(record.ended)}: {how}"
    last = frame.last_measured
    return "nothing runs" + (f"; last trial measured {_moment(last)}" if last is not None else "")


def _moment(at: float) -> str:
    if not 0 <= at < _LATEST:
        return "at an unknown time"
    return datetime.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def trial_words(frame: Frame) -> str:
    """The trials by what has become of them."""
    of = f" of {frame.total}" if frame.total is not None else ""
    left = "unknown" if frame.left is None else str(frame.left)
    return (
        f"trials: {frame.done}{of} done, {len(frame.running)} running, "
        f"{len(frame.failed)} failed, {left} left"
    )


def left_words(left: Left) -> str:
    """The time that is left, with its range."""
    if left.seconds is None:
        return f"time left: unknown, {left.reason}"
    if left.low is None or left.high is None:
        return f"time left: about {duration(left.seconds)} ({left.reason}: no range)"
    return (
        f"time left: about {duration(left.seconds)} ({duration(left.low)} to "
        f"{duration(left.high)}, {left.reason})"
    )


def line(frame: Frame) -> str:
    """The frame in one line, for logs."""
    rate = sum(one.progress.operations_per_s for one in frame.workers if one.fresh)
    parts = [f"{frame.study}: {state_words(frame)}", trial_words(frame)]
    if not frame.over:
        parts += [f"{number(rate)} operations/s", left_words(frame.estimate)]
    return "; ".join(parts)


def screen(frame: Frame) -> RenderableType:
    """The frame for a terminal."""
    parts: list[RenderableType] = [
        Text.assemble((frame.study, "bold"), f" ({frame.directory}): {state_words(frame)}")
    ]
    parts.append(Text(trial_words(frame)))
    if frame.total:
        gone = frame.done + len(frame.failed)
        bar = Table.grid()
        bar.add_row(ProgressBar(total=frame.total, completed=gone, width=60))
        parts.append(bar)
    if not frame.over:
        parts.append(Text(left_words(frame.estimate)))
    # A low terminal shows the first lines only.
    parts += _troubles(frame)
    for session in frame.sessions:
        lease = "gone" if session.lease_age is None else f"{session.lease_age:.0f} s old"
        trial = trial_of(session)
        opened = f"{session.phase}, open for {duration(session.age)}, lease {lease}"
        parts.append(Text(f"\n{trial}: {opened}"))
        if session.ending:
            parts.append(Text(f"  ends: {session.ending}", style="red"))
        workers = [one for one in frame.workers if one.trial == trial]
        if workers:
            parts.append(_workers(workers))
        if session.nodes:
            records = {one.progress.job: one for one in frame.nodes if one.trial == trial}
            parts.append(_nodes(session.nodes, records, frame.owned()))
    if frame.log is not None and frame.lines:
        parts.append(Text(f"\n{frame.log.parent.name}/{frame.log.name}", style="dim"))
        parts += [Text(f"  {text}", style="dim", overflow="ellipsis") for text in frame.lines]
    return Group(*parts)


def _table(*names: str, left: int) -> Table:
    """A table whose first `left` columns are words; only the host is cut where it is narrow."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place, name in enumerate(names):
        table.add_column(
            name,
            justify="left" if place < left else "right",
            no_wrap=True,
            overflow="ellipsis" if name == "host" else "fold",
            min_width=None if name == "host" else len(name),
        )
    return table


def _workers(workers: Sequence[Teller]) -> Table:
    names = ("worker", "host", "", "step", "s", "operations", "ops/s", "docs/s", "CPU")
    table = _table(*names, left=3)
    busiest = sorted(workers, key=lambda one: -one.progress.operations_per_s)[:MOST]
    for one in sorted(busiest, key=lambda one: one.progress.job):
        record = one.progress
        state = record.state if one.fresh else f"silent for {one.age:.0f} s"
        works = record.state == "works"
        cpu = record.figures.get("client_cpu")
        table.add_row(
            *(record.job, record.host, state, str(record.step)),
            f"{record.seconds:.0f}" if works else "",
            f"{record.operations:,}" if works else "",
            number(record.operations_per_s) if works else "",
            number(record.documents_per_s) if works else "",
            "" if cpu is None or not works else f"{cpu:.2f}",
        )
    every = [one.progress for one in workers if one.fresh and one.progress.state == "works"]
    if len(every) > 1:
        table.add_row(
            *(f"all {len(every)}", "", "", "", ""),
            f"{sum(record.operations for record in every):,}",
            number(sum(record.operations_per_s for record in every)),
            number(sum(record.documents_per_s for record in every)),
            "",
        )
    return table


def _nodes(
    nodes: Sequence[Any], records: Mapping[str, Teller], owned: Mapping[str, float]
) -> Table:
    names = ("node", "host", "", "ops/s", "CPU", "memory", "host CPU", "iowait", "written/s")
    table = _table(*names, left=3)
    for node in nodes[:MOST]:
        figures: Mapping[str, float] = {}
        if node.node in records and records[node.node].fresh:
            figures = records[node.node].progress.figures
        busy = [figures[name] for name in ("cpu_user", "cpu_system") if name in figures]
        table.add_row(
            *(node.node, node.host, node.state),
            number(owned[node.node]) if node.node in owned else "",
            f"{figures['store_cpu']:.2f}" if "store_cpu" in figures else "",
            binary(figures["store_rss"]) if "store_rss" in figures else "",
            f"{sum(busy):.0f} %" if busy else "",
            f"{figures['cpu_iowait']:.0f} %" if "cpu_iowait" in figures else "",
            binary(figures["disk_write"]) if "disk_write" in figures else "",
        )
    if len(nodes) > MOST:
        table.add_row(f"and {len(nodes) - MOST} more")
    return table


def _troubles(frame: Frame) -> list[RenderableType]:
    lines: list[RenderableType] = [
        Text(f"\nfailed attempt: {one.trial}: {one.reason}", style="yellow")
        for one in frame.failures[-LINES:]
    ]
    if len(frame.failures) > LINES:
        lines.append(Text(f"and {len(frame.failures) - LINES} attempts before", style="yellow"))
    lines += [Text(f"\n{text}", style="yellow") for text in frame.warnings]
    if frame.failed:
        lines.append(Text(f"\ngiven up: {', '.join(frame.failed)}", style="red"))
    silent = [one for one in (*frame.workers, *frame.nodes) if not one.fresh]
    if silent:
        names = ", ".join(f"{one.progress.job} on {one.progress.host}" for one in silent)
        lines.append(Text(f"\nsilent for more than 10 s: {names}", style="yellow"))
    return lines


def as_json(frame: Frame) -> dict[str, Any]:
    """The frame as plain data; what is no finite number is None."""
    data = {
        "study": frame.study,
        "directory": str(frame.directory),
        "at": frame.at,
        "state": frame.state,
        **{
            name: getattr(frame.record, name, None)
            for name in ("run", "started", "ended", "reason")
        },
        "lease_age": frame.lease_age,
        "trials": {
            "total": frame.total,
            "done": frame.done,
            "running": list(frame.running),
            "failed": list(frame.failed),
            "left": frame.left,
        },
        "seconds_left": asdict(frame.estimate),
        "operations_per_s": sum(w.progress.operations_per_s for w in frame.workers if w.fresh),
        "operations_per_s_by_node": frame.owned(),
        "sessions": [asdict(session) for session in frame.sessions],
        "workers": [_teller(one) for one in frame.workers],
        "nodes": [_teller(one) for one in frame.nodes],
        "failures": [asdict(failure) for failure in frame.failures],
        "warnings": list(frame.warnings),
        "log": None if frame.log is None else str(frame.log),
        "lines": list(frame.lines),
    }
    return {name: json_value(value) for name, value in data.items()}


def _teller(one: Teller) -> dict[str, Any]:
    return {"trial": one.trial, "age": one.age, **asdict(one.progress)}
