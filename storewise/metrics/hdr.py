"""Latency histograms: HdrHistogram buckets filled from numpy, and interval logs of them.

Values are nanoseconds from 1 ns to 1 h with three significant digits, so any percentile read from
a histogram is within 0.1 % of the recorded value. Percentiles cannot be averaged; histograms can
be added, so logs of several workers, processes and repeats are merged here and percentiles read
from the sum. Log format: HdrHistogram's interval log, version 1.3 (tags), V2 compressed payloads
(https://github.com/HdrHistogram/HdrHistogram, ``HistogramLogWriter``).
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from hdrh.histogram import HdrHistogram

from storewise.errors import ResultError
from storewise.metrics.sparse_histogram import (
    BROKEN,
    HALF_MAGNITUDE,
    Counted,
    add_encoded,
    values_of,
)
from storewise.metrics.sparse_histogram import COUNTERS as COUNTERS
from storewise.metrics.sparse_histogram import HIGHEST_NS as HIGHEST_NS
from storewise.metrics.sparse_histogram import Integers as Integers
from storewise.metrics.sparse_histogram import new_histogram as new_histogram

_MASK = (2 << HALF_MAGNITUDE) - 1
_HALF = 1 << HALF_MAGNITUDE

Time = Literal["service_time", "response_time"]
#: Says at a log's begin that its last line has a checksum: one that was cut off has none.
_SUMMED = "#[Checksum: in the last line]\n"
#: The last line of a log with totals: where they begin, in bytes, and a checksum of all before,
#: which older logs do not have. Comments to all other readers.
_TOTALS = re.compile(
    rb"#\[Totals: (\d+) tags from byte (\d+) on(?:, crc32 of all before ([0-9a-f]{8}))?\]\n\Z"
)
#: One of them: the sum of all intervals with a tag.
_TOTAL = "#[Total: Tag="


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
    values in ns. Behind the intervals, as comments, are the sums of each tag's.
    """
    day = datetime.fromtimestamp(base_time, UTC).isoformat()
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            log = _Summed(file)
            log.write("#[Histogram log format version 1.3]\n")
            log.write(_SUMMED)
            log.write(f"#[BaseTime: {base_time:.3f} (seconds since epoch)]\n")
            log.write(f"#[StartTime: {base_time:.3f} (seconds since epoch), {day}]\n")
            log.write(
                '"StartTimestamp","Interval_Length","Interval_Max",'
                '"Interval_Compressed_Histogram"\n'
            )
            totals: dict[str, Integers] = {}
            for tag, start, length, histogram in intervals:
                payload = histogram.encode().decode("ascii")
                maximum = histogram.get_max_value() / 1e6
                log.write(f"Tag={tag},{start:.3f},{length:.3f},{maximum:.3f},{payload}\n")
                if str(tag) not in totals:
                    totals[str(tag)] = np.zeros(COUNTERS, dtype=np.int64)
                totals[str(tag)] += np.frombuffer(histogram.counts, dtype=np.int64)
            _write_totals(log, totals)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


class _Summed:
    """Text as it is written to a file, with the sum of its bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self.crc = 0
        self._file = file

    def write(self, text: str) -> None:
        data = text.encode("ascii", "backslashreplace")
        self.crc = zlib.crc32(data, self.crc)
        self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()


def _write_totals(log: _Summed, totals: Mapping[str, Integers]) -> None:
    """The sum of each tag's intervals, encoded as these are, and where the sums begin."""
    begin = log.tell()
    for tag, dense in totals.items():
        where = np.flatnonzero(dense)
        payload = histogram_of(where, dense[where]).encode().decode("ascii")
        log.write(f"{_TOTAL}{tag},{payload}]\n")
    log.write(f"#[Totals: {len(totals)} tags from byte {begin} on, crc32 of all before ")
    log.write(f"{log.crc:08x}]\n")


def _content(path: Path) -> bytes:
    """A log's bytes; ResultError where they are not those that were written.

    Payloads have checksums of their own, but what stands beside them, and their base64, has not.
    Logs of before 2026-11 have none, and are taken as they are.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path}: not a readable Hdr log: {error}") from error
    last = _TOTALS.search(content, max(0, len(content) - 200))
    wanted = last[3] if last is not None else None
    if wanted is None:
        if _SUMMED.encode() not in content[:200]:
            return content
        raise ResultError(f"{path}: the log was cut short or changed: its last line is not there")
    assert last is not None
    if zlib.crc32(memoryview(content)[: last.start(3)]) != int(wanted, 16):
        raise ResultError(f"{path}: the log was changed after it was written: its checksum differs")
    return content


def _totals(path: Path) -> list[tuple[str, str]] | None:
    """Tags and payloads of a log's totals; None where it has none, as older logs.

    A log that was cut off, or continued by another program, counts as one without.
    """
    content = _content(path)
    found = _TOTALS.search(content, max(0, len(content) - 200))
    if found is None:
        return None
    number, begin = int(found[1]), int(found[2])
    try:
        lines = content[begin:].decode("utf-8").splitlines()[:-1]
    except UnicodeDecodeError as error:
        raise ResultError(f"{path}: not a readable Hdr log: {error}") from error
    totals = []
    for line in lines:
        tag, comma, payload = line.removeprefix(_TOTAL).partition(",")
        if not line.startswith(_TOTAL) or not comma or not payload.endswith("]"):
            return None
        totals.append((tag, payload[:-1]))
    return totals if len(totals) == number else None


def _lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    try:
        for number, line in enumerate(_content(path).decode("utf-8").split("\n"), 1):
            if line.startswith(("#", '"')) or not line.strip():
                continue
            parts = line.rstrip("\r").split(",")
            tag = ""
            if parts[0].startswith("Tag="):
                tag = parts.pop(0)[4:]
            if len(parts) != 4:
                raise ResultError(
                    f"{path}, line {number}: not an interval of an Hdr log "
                    f"(expected 4 columns after the tag, found {len(parts)})"
                )
            yield number, tag, parts
    except UnicodeDecodeError as error:
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
            except BROKEN as error:
                raise ResultError(
                    f"{path}, line {number}: the histogram cannot be decoded: {error}"
                ) from error
    return total


def merge_all(paths: Iterable[Path], wanted: Callable[[str], bool]) -> dict[str, Counted]:
    """The sum of all intervals of each tag that is wanted, over these logs, by tag.

    A log's own totals are taken where it has them, else its intervals are added up. `wanted` may
    raise ValueError for a foreign tag. Raises ResultError, naming file and line, for what cannot be
    read.
    """
    sums: dict[str, Integers | None] = {}
    scratch = np.zeros(COUNTERS, dtype=np.int64)
    for path in paths:
        known = _totals(path)
        places: Iterable[tuple[str, str, str]] = (
            ((f"line {number}", tag, parts[3]) for number, tag, parts in _lines(path))
            if known is None
            else ((f"the total of {tag}", tag, payload) for tag, payload in known)
        )
        # Service and response time often have equal values: such payloads are decoded once.
        for payload, equal in groupby(places, key=itemgetter(2)):
            alike = list(equal)
            into = []
            for _, tag, _ in alike:
                if tag not in sums:
                    try:
                        sums[tag] = np.zeros(COUNTERS, dtype=np.int64) if wanted(tag) else None
                    except ValueError as error:
                        raise ResultError(f"{path}: {error}") from error
                dense = sums[tag]
                if dense is not None:
                    into.append(dense)
            try:
                if into:
                    add_encoded(payload, into, scratch)
            except BROKEN as error:
                raise ResultError(
                    f"{path}, {alike[0][0]}: the histogram cannot be decoded: {error}"
                ) from error
    return {tag: Counted.of(dense) for tag, dense in sums.items() if dense is not None}


def decoded(payloads: Mapping[str, str]) -> dict[str, Counted]:
    """Encoded histograms as sums, by the same keys; raises ResultError for what is none."""
    scratch = np.zeros(COUNTERS, dtype=np.int64)
    found = {}
    for key, payload in payloads.items():
        dense = np.zeros(COUNTERS, dtype=np.int64)
        try:
            add_encoded(payload, [dense], scratch)
        except BROKEN as error:
            raise ResultError(f"{key}: the histogram cannot be decoded: {error}") from error
        found[key] = Counted.of(dense)
    return found


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
        except BROKEN as error:
            raise ResultError(
                f"{path}, line {number}: the interval cannot be decoded: {error}"
            ) from error


def percentiles(histogram: Any, wanted: Sequence[float]) -> dict[float, int]:
    """Values in ns at percentiles 0..100: the smallest recorded value, to three digits, that at
    least this share of the values does not exceed. Empty for an empty histogram."""
    if not histogram.get_total_count():
        return {}
    one = histogram if isinstance(histogram, Counted) else counted(histogram)
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


def counted(histogram: Any) -> Counted:
    """A HdrHistogram of our range and precision as a sum that other sums can be added to."""
    return Counted.of(np.frombuffer(histogram.counts, dtype=np.int64))
