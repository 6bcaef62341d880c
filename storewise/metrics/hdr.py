"""Latency histograms: HdrHistogram buckets filled from numpy, and interval logs of them.

Values are nanoseconds from 1 ns to 1 h with three significant digits, so any percentile read from
a histogram is within 0.1 % of the recorded value. Percentiles cannot be averaged; histograms can
be added, so logs of several workers, processes and repeats are merged here and percentiles read
from the sum. Log format: HdrHistogram's interval log, version 1.3 (tags), V2 compressed payloads
(https://github.com/HdrHistogram/HdrHistogram, ``HistogramLogWriter``).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from storewise.atomic import aside
from storewise.errors import ResultError

LOWEST_NS = 1
HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3

#: Largest power of two that resolves single units at three digits is 2048; half of it is the
#: number of buckets per doubling (HdrHistogram's "sub-bucket half count").
HALF_MAGNITUDE = 10
_HALF = 1 << HALF_MAGNITUDE
_MASK = (2 << HALF_MAGNITUDE) - 1

Integers = NDArray[np.int64]
Time = Literal["service_time", "response_time"]
#: In a log's head: its last line has a checksum, so that a log that was cut short is noticed.
_CHECKSUM_MARK = "#[Checksum: in the last line]\n"
#: The last line: a checksum of all before it.
_LAST_LINE = re.compile(rb"#\[Totals: .*, crc32 of all before ([0-9a-f]{8})\]\n\Z")
#: Before it, the sum of all intervals of each tag. To other programs these lines are comments.
_TOTAL = "#[Total: Tag="
#: Exceptions of the package hdrh for an invalid payload.
_BROKEN = (
    *(ValueError, TypeError, EOFError, IndexError, zlib.error, struct.error),
    *(HdrCookieException, HdrLengthException),
)


def new_histogram() -> Any:
    """An empty HdrHistogram of the range and precision of all Storewise logs."""
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)


#: Number of counters of such a histogram.
COUNTERS: int = new_histogram().counts_len


class SparseHistogram:
    """A sum of histograms: `indexes` (int64, rising) of the counters that are not zero, and their
    `counts` (int64).

    A HdrHistogram takes 270 kB whatever is in it, and a study has tens of thousands; this sparse
    form takes a few kilobytes.
    """

    __slots__ = ("counts", "indexes")

    def __init__(self, indexes: Integers | None = None, counts: Integers | None = None) -> None:
        empty = np.zeros(0, dtype=np.int64)
        self.indexes: Integers = empty if indexes is None else indexes
        self.counts: Integers = empty if counts is None else counts

    @classmethod
    def of(cls, histogram: Any) -> SparseHistogram:
        """From a HdrHistogram of the range and precision of Storewise's logs."""
        dense = np.frombuffer(histogram.counts, dtype=np.int64)
        where = np.flatnonzero(dense)
        return cls(where, dense[where])

    def add(self, other: SparseHistogram) -> None:
        """Add another sum to this one; the arrays of neither are changed in place."""
        if not len(self.indexes):
            self.indexes, self.counts = other.indexes, other.counts
        elif len(other.indexes):
            pairs = ((self.indexes, self.counts), (other.indexes, other.counts))
            self.indexes, self.counts = add_up(pairs)

    def get_total_count(self) -> int:
        """Number of recorded values."""
        return int(self.counts.sum())

    def get_mean_value(self) -> float:
        """Mean in ns of the middles of the counters, as HdrHistogram has it; 0 without values."""
        total = self.get_total_count()
        if not total:
            return 0.0
        low, width = values_of(self.indexes)
        # Sums of values up to an hour may leave the range of 64 bits.
        return float(np.dot((low + (width >> 1)).astype(float), self.counts.astype(float))) / total

    def above(self, index: int) -> int:
        """Number of values in counters with a higher index."""
        return int(self.counts[np.searchsorted(self.indexes, index, side="right") :].sum())


def add_up(parts: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[Integers, Integers]:
    """The sum of sparse histograms, given and returned as (indexes of counters, their counts)."""
    parts = [(indexes, counts) for indexes, counts in parts if len(indexes)]
    highest = max((int(indexes.max()) for indexes, _ in parts), default=-1)
    dense = np.zeros(highest + 1, dtype=np.int64)
    for indexes, counts in parts:
        dense[indexes] += counts
    where = np.flatnonzero(dense)
    return where, dense[where]


def values_of(indexes: Integers) -> tuple[Integers, Integers]:
    """The lowest value in ns that each counter stands for, and how many values it stands for."""
    doublings = np.maximum((indexes >> HALF_MAGNITUDE) - 1, 0)
    within = np.where(indexes < _HALF, indexes, (indexes & (_HALF - 1)) + _HALF)
    # The first 2048 counters stand for one value each.
    first = indexes < 2 * _HALF
    low = np.where(first, indexes, within << doublings)
    return low, np.where(first, 1, np.int64(1) << doublings)


def bucket_indexes(values: Integers) -> Integers:
    """Counter index of each value in ns; values outside 0 .. 1 h are put to the nearest end.

    The same index as HdrHistogram's ``get_counts_array_index``: with b the number of doublings
    above 2047 of a value, ``(b + 1) * 1024 + (value >> b) - 1024``.
    """
    clipped = np.clip(values, 0, HIGHEST_NS)
    # frexp's exponent is the bit length; exact, for the range stays below 2**53.
    doublings = np.frexp((clipped | _MASK).astype(np.float64))[1].astype(np.int64) - (
        HALF_MAGNITUDE + 1
    )
    return ((doublings + 1) << HALF_MAGNITUDE) + (clipped >> doublings) - _HALF


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
    """The operations of an interval of a log; ``str`` converts it to the interval's Hdr tag.

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
    values in ns. After the intervals follow, as comments, the sums of each tag.
    """
    day = datetime.fromtimestamp(base_time, UTC).isoformat()
    totals: dict[str, Any] = {}
    crc = 0
    with aside(path) as place, place.open("wb") as file:

        def write(text: str) -> None:
            nonlocal crc
            data = text.encode("ascii", "backslashreplace")
            crc = zlib.crc32(data, crc)
            file.write(data)

        write("#[Histogram log format version 1.3]\n")
        write(_CHECKSUM_MARK)
        write(f"#[BaseTime: {base_time:.3f} (seconds since epoch)]\n")
        write(f"#[StartTime: {base_time:.3f} (seconds since epoch), {day}]\n")
        write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        for tag, start, length, histogram in intervals:
            maximum = histogram.get_max_value() / 1e6
            write(f"Tag={tag},{start:.3f},{length:.3f},{maximum:.3f},{encoded(histogram)}\n")
            totals.setdefault(str(tag), new_histogram()).add(histogram)
        begin = file.tell()
        for name, total in totals.items():
            write(f"{_TOTAL}{name},{encoded(total)}]\n")
        write(f"#[Totals: {len(totals)} tags from byte {begin} on, crc32 of all before ")
        write(f"{crc:08x}]\n")


def encoded(histogram: Any) -> str:
    """A HdrHistogram in the V2 compressed form, base64."""
    return str(histogram.encode().decode("ascii"))


class _Payload(NamedTuple):
    place: str
    """File and line, for messages."""
    tag: str
    histogram: str
    """Encoded."""


def _read(path: Path) -> tuple[list[_Payload], list[_Payload]]:
    """The intervals of a log and its totals; no totals in logs of other programs.

    ResultError for a file that is no log, or was changed after it was written. (Payloads have
    checksums of their own, but not what stands beside them.)
    """
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"{path}: not a readable Hdr log: {error}") from error
    last = _LAST_LINE.search(content, max(0, len(content) - 200))
    if last is not None and zlib.crc32(memoryview(content)[: last.start(1)]) != int(last[1], 16):
        raise ResultError(f"{path}: the log was changed after it was written: its checksum differs")
    if last is None and _CHECKSUM_MARK.encode() in content[:200]:
        raise ResultError(f"{path}: the log was cut short or changed: its last line is not there")
    intervals, totals = [], []
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        if line.startswith(_TOTAL) and last is not None:
            tag, _, payload = line.removeprefix(_TOTAL).removesuffix("]").partition(",")
            totals.append(_Payload(place, tag, payload))
        elif line.strip() and not line.startswith(("#", '"')):
            parts = line.rstrip("\r").split(",")
            tag = parts.pop(0)[4:] if parts[0].startswith("Tag=") else ""
            if len(parts) != 4:
                raise ResultError(
                    f"{place}: not an interval of an Hdr log "
                    f"(expected 4 columns after the tag, found {len(parts)})"
                )
            intervals.append(_Payload(place, tag, parts[3]))
    return intervals, totals


def tags(path: Path) -> list[str]:
    """The tags of a log, each once, in the order of their first interval.

    Raises ResultError where the file is no Hdr log.
    """
    return list(dict.fromkeys(interval.tag for interval in _read(path)[0]))


def merge_logs(paths: Iterable[Path], tag: str | Tag) -> Any:
    """The sum of all intervals with exactly this tag in these logs, as one HdrHistogram.

    Empty where no log has the tag. Raises ResultError, naming file and line, for what cannot be
    read.
    """
    total = new_histogram()
    for path in paths:
        for interval in _read(path)[0]:
            if interval.tag == str(tag):
                _add(total, interval.histogram, interval.place)
    return total


def merge_all(paths: Iterable[Path], wanted: Callable[[str], bool]) -> dict[str, SparseHistogram]:
    """The sum of all intervals of each tag that is wanted, over these logs, by tag.

    A log's own totals are used where it has them. `wanted` may raise ValueError for the tag of
    another program. Raises ResultError, naming file and line, for what cannot be read.
    """
    sums: dict[str, Any] = {}
    for path in paths:
        intervals, totals = _read(path)
        for place, tag, payload in totals or intervals:
            if tag not in sums:
                try:
                    sums[tag] = new_histogram() if wanted(tag) else None
                except ValueError as error:
                    raise ResultError(f"{path}: {error}") from error
            if sums[tag] is not None:
                _add(sums[tag], payload, place)
    return {tag: SparseHistogram.of(total) for tag, total in sums.items() if total is not None}


def decoded(payloads: Mapping[str, str]) -> dict[str, SparseHistogram]:
    """Encoded histograms as sums, by the same keys; raises ResultError for what is none."""
    sums = {}
    for key, payload in payloads.items():
        total = new_histogram()
        _add(total, payload, key)
        sums[key] = SparseHistogram.of(total)
    return sums


def _add(total: Any, payload: str, place: str) -> None:
    """Add an encoded histogram, also of another range or precision, to a sum."""
    try:
        total.decode_and_add(payload)
    except _BROKEN as error:
        raise ResultError(f"{place}: the histogram cannot be decoded: {error}") from error


def percentiles(histogram: Any, wanted: Sequence[float]) -> dict[float, int]:
    """Values in ns at percentiles 0..100: the smallest recorded value, to three digits, that at
    least this share of the values does not exceed. Empty for an empty histogram."""
    if not histogram.get_total_count():
        return {}
    one = histogram if isinstance(histogram, SparseHistogram) else SparseHistogram.of(histogram)
    cumulative = np.cumsum(one.counts)
    low, width = values_of(one.indexes)
    result = {}
    for percentile in wanted:
        if not 0 <= percentile <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percentile}")
        rank = max(1, int(np.ceil(percentile / 100 * int(cumulative[-1]) - 1e-9)))
        index = int(np.searchsorted(cumulative, rank))
        result[percentile] = int(low[index] + width[index]) - 1
    return result
