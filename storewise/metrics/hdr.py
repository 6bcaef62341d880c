"""Latency histograms: HdrHistogram buckets filled from numpy, and interval logs of them.

Values are nanoseconds from 1 ns to 1 h with three significant digits, so any percentile read from
a histogram is within 0.1 % of the recorded value. Percentiles cannot be averaged; histograms can
be added, so logs of several workers, processes and repeats are merged here and percentiles read
from the sum. Log format: HdrHistogram's interval log, version 1.3 (tags), V2 compressed payloads
(https://github.com/HdrHistogram/HdrHistogram, ``HistogramLogWriter``).
"""

from __future__ import annotations

import binascii
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from storewise.errors import ResultError

LOWEST_NS = 1
HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3

#: Largest power of two that resolves single units at three digits is 2048; half of it is the
#: number of buckets per doubling (HdrHistogram's "sub-bucket half count").
_HALF_MAGNITUDE = 10
_HALF = 1 << _HALF_MAGNITUDE
_MASK = 2 * _HALF - 1

Time = Literal["service_time", "response_time"]
Integers = NDArray[np.int64]

_BROKEN = (
    ValueError,
    TypeError,
    EOFError,
    binascii.Error,
    zlib.error,
    HdrCookieException,
    HdrLengthException,
)


def new_histogram() -> Any:
    """An empty HdrHistogram of the range and precision of all Storewise logs."""
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)


#: Number of counters of such a histogram.
COUNTERS: int = new_histogram().counts_len


def bucket_indexes(values: Integers) -> Integers:
    """Counter index of each value in ns; values outside 0 .. 1 h are put to the nearest end.

    The same index as HdrHistogram's ``get_counts_array_index``: with b the number of doublings
    above 2047 of a value, ``(b + 1) * 1024 + (value >> b) - 1024``.
    """
    clipped = np.clip(values, 0, HIGHEST_NS)
    # frexp's exponent is the bit length; exact, for the range stays below 2**53.
    doublings = np.frexp((clipped | _MASK).astype(np.float64))[1].astype(np.int64) - (
        _HALF_MAGNITUDE + 1
    )
    return ((doublings + 1) << _HALF_MAGNITUDE) + (clipped >> doublings) - _HALF


def histogram_of(indexes: Integers, counts: Integers) -> Any:
    """A HdrHistogram from counter indexes (each at most once) and their counts."""
    histogram = new_histogram()
    if len(indexes):
        view = np.frombuffer(histogram.counts, dtype=np.uint64)
        view[indexes] = counts
        histogram.set_internal_tacking_values(
            int(indexes.min()), int(indexes.max()), int(counts.sum())
        )
        histogram.min_value = histogram.get_value_from_index(int(indexes.min()))
    return histogram


class Tag(NamedTuple):
    """What an interval of a log is about; its text form is the interval's Hdr tag.

    ``get.service_time`` is the whole text for a successful operation of a phase's first step
    outside warm-up; ``;step=1``, ``;owner=NAME``, ``;failed`` and ``;warmup`` are added in this
    order where they apply.
    """

    operation: str
    time: Time
    step: int = 0
    owner: str | None = None
    failed: bool = False
    warmup: bool = False

    def __str__(self) -> str:
        text = f"{self.operation}.{self.time}"
        if self.step:
            text += f";step={self.step}"
        if self.owner is not None:
            # A tag ends at the first comma; blanks and line ends are not allowed in one.
            owner = "".join("_" if c in ",; \t\r\n" else c for c in self.owner)
            text += f";owner={owner}"
        if self.failed:
            text += ";failed"
        if self.warmup:
            text += ";warmup"
        return text

    @classmethod
    def parse(cls, text: str) -> Tag:
        """The inverse of ``str``; raises ValueError for the tag of another program."""
        head, *rest = text.split(";")
        operation, dot, time = head.rpartition(".")
        if not dot or time not in ("service_time", "response_time"):
            raise ValueError(f"{text!r} is not a tag of a Storewise log")
        values = dict(part.partition("=")[::2] for part in rest)
        return cls(
            operation,
            "service_time" if time == "service_time" else "response_time",
            int(values.get("step", "0")),
            values.get("owner"),
            "failed" in values,
            "warmup" in values,
        )


class Interval(NamedTuple):
    """One line of a log: `start` and `length` in s from the log's base time."""

    tag: Tag
    start: float
    length: float
    histogram: Any


def write_log(path: Path, base_time: float, intervals: Iterable[Interval]) -> None:
    """Write an interval log, whole or not at all.

    `base_time` is Unix time in s. The column Interval_Max is in ms, as Hdr tools expect of
    values in ns.
    """
    day = datetime.fromtimestamp(base_time, UTC).isoformat()
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("w", encoding="ascii", errors="backslashreplace") as log:
            log.write("#[Histogram log format version 1.3]\n")
            log.write(f"#[BaseTime: {base_time:.3f} (seconds since epoch)]\n")
            log.write(f"#[StartTime: {base_time:.3f} (seconds since epoch), {day}]\n")
            log.write(
                '"StartTimestamp","Interval_Length","Interval_Max",'
                '"Interval_Compressed_Histogram"\n'
            )
            for tag, start, length, histogram in intervals:
                payload = histogram.encode().decode("ascii")
                maximum = histogram.get_max_value() / 1e6
                log.write(f"Tag={tag},{start:.3f},{length:.3f},{maximum:.3f},{payload}\n")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    try:
        with path.open(encoding="utf-8") as log:
            for number, line in enumerate(log, 1):
                if line.startswith(("#", '"')) or not line.strip():
                    continue
                parts = line.rstrip("\n").split(",")
                tag = ""
                if parts[0].startswith("Tag="):
                    tag = parts.pop(0)[4:]
                if len(parts) != 4:
                    raise ResultError(
                        f"{path}, line {number}: not an interval of an Hdr log "
                        f"(expected 4 columns after the tag, found {len(parts)})"
                    )
                yield number, tag, parts
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"{path}: not a readable Hdr log: {error}") from error


def tags(path: Path) -> list[str]:
    """The tags of a log, each once, in the order of their first interval.

    Raises ResultError where the file is no Hdr log.
    """
    return list(dict.fromkeys(tag for _, tag, _ in _lines(path)))


def merge_logs(paths: Iterable[Path], tag: str | Tag) -> Any:
    """The sum of all intervals with this very tag in these logs, as one HdrHistogram.

    Empty where no log has the tag. Raises ResultError, naming file and line, for what cannot be
    read.
    """
    wanted = str(tag)
    total = new_histogram()
    for path in paths:
        for number, found, parts in _lines(path):
            if found != wanted:
                continue
            try:
                total.decode_and_add(parts[3])
            except (*_BROKEN, IndexError) as error:
                raise ResultError(
                    f"{path}, line {number}: the histogram cannot be decoded: {error}"
                ) from error
    return total


def merge_all(paths: Iterable[Path], wanted: Callable[[str], bool]) -> dict[str, Any]:
    """As `merge_logs`, for all tags that are wanted, with one look at each log; by tag."""
    totals: dict[str, Any] = {}
    for path in paths:
        for number, found, parts in _lines(path):
            total = totals.get(found)
            if total is None:
                if found in totals:
                    continue
                total = totals[found] = new_histogram() if wanted(found) else None
                if total is None:
                    continue
            try:
                total.decode_and_add(parts[3])
            except (*_BROKEN, IndexError) as error:
                raise ResultError(
                    f"{path}, line {number}: the histogram cannot be decoded: {error}"
                ) from error
    return {tag: total for tag, total in totals.items() if total is not None}


def intervals(path: Path, tag: str | Tag) -> Iterator[Interval]:
    """The intervals of one tag in the order of the log; errors as in `merge_logs`."""
    wanted = str(tag)
    for number, found, parts in _lines(path):
        if found != wanted:
            continue
        try:
            yield Interval(
                Tag.parse(found),
                float(parts[0]),
                float(parts[1]),
                HdrHistogram.decode(parts[3]),
            )
        except _BROKEN as error:
            raise ResultError(
                f"{path}, line {number}: the interval cannot be decoded: {error}"
            ) from error


def percentiles(histogram: Any, wanted: Sequence[float]) -> dict[float, int]:
    """Values in ns at percentiles 0..100: the smallest recorded value, to three digits, that at
    least this share of the values does not exceed. Empty for an empty histogram."""
    if not histogram.get_total_count():
        return {}
    counts = np.frombuffer(histogram.counts, dtype=np.uint64)
    cumulative = np.cumsum(counts)
    result = {}
    for percentile in wanted:
        if not 0 <= percentile <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percentile}")
        rank = max(1, int(np.ceil(percentile / 100 * int(cumulative[-1]) - 1e-9)))
        index = int(np.searchsorted(cumulative, rank))
        result[percentile] = int(
            histogram.get_highest_equivalent_value(histogram.get_value_from_index(index))
        )
    return result
