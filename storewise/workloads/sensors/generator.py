"""Readings of sensors, made by a seeded generator: pressure-like series of any length.

A *series* is one sensor of one machine. All series are read once a minute: reading number ``i`` of
the data set belongs to series ``i mod K`` at tick ``i div K`` (K series), so the data come in the
order of time, as a log has them. The value of a reading is

    level + drift + daily wave + noise + spike     (bar)

- level: 10 +- 0.5 by series; drift: a sine of 25 to 60 days and up to 0.4; wave: a sine of one day
  and 0.1 to 0.4; both with a phase of their own.
- noise: normal with standard deviation 0.15.
- spike: one reading in 5,000 has one, exponential with mean 2.

Every random number is a hash of (seed, series, tick), so that any reading can be made alone and is
the same each time: clients make their own parts, and nobody needs a second copy to check one. The
hash is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from storewise.documents import Document, Field, Kind

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Bytes of one reading as the workload counts them: 2 + 2 + 8 + 8 + 8.
READING_BYTES = 28
#: One reading of each series a minute, in µs.
PERIOD = 60_000_000
#: 2010-01-01T00:00:00Z in µs.
FIRST = 1_262_304_000_000_000
MAX_ROWS = 1_000_000_000
#: Of a data set.
MAX_SERIES = 16_384
#: Largest number of a machine or sensor: two bytes of a key.
MAX_NUMBER = 65_535
#: Readings that are made at a time.
CHUNK = 65_536
#: Data sets of more readings give their thresholds from a sample of about so many.
EXACT_ROWS = 10_000_000
#: Ticks of a day.
_DAY = 1440
#: Standard deviation of the noise (bar); share of the readings with a spike, and its mean (bar).
_NOISE, _SPIKES, _SPIKE = 0.15, 1 / 5000, 2.0
#: Decimals that sensors give; also what a CSV file has, so that both hold the same numbers.
DECIMALS = 6

MEASURES = Kind(
    "measures",
    (
        Field("_id", "id", "m (2 bytes), s (2) and bt (8), big-endian"),
        Field("m", "int", "number of the machine, from 1"),
        Field("s", "int", "number of its sensor, from 1"),
        Field("bt", "int", "begin of the reading, µs since 1970"),
        Field("et", "int", "end of the reading, µs since 1970"),
        Field("mv", "float", "measured value"),
    ),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)


def _hash(key: int, series: Words, ticks: Words) -> Words:
    """64 random bits for each pair."""
    gamma, series_gamma = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
    z = np.uint64(key) + ticks * gamma + series * series_gamma
    # Two rounds: neighbouring series and ticks differ in few bits.
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z


@dataclass(frozen=True)
class Readings:
    """A generated data set: computes any of its readings from its number (row)."""

    machines: int = 16
    sensors: int = 4
    seed: int = 1

    @property
    def series(self) -> int:
        return self.machines * self.sensors

    @cached_property
    def _keys(self) -> dict[str, int]:
        """One hash key for each random quantity, so that they are independent."""
        names = ("level", "drift", "wave", "phase", "day", "length", "noise", "spike", "size", "et")
        entropy = np.random.SeedSequence([self.seed, 0x6D656173])
        return dict(zip(names, entropy.generate_state(len(names), np.uint64).tolist(), strict=True))

    def _random(self, name: str, series: Integers, ticks: Integers) -> Floats:
        """Uniform in the open interval (0, 1), 53 bits."""
        words = _hash(self._keys[name], series.astype(np.uint64), ticks.astype(np.uint64))
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    @cached_property
    def _waves(self) -> tuple[Floats, ...]:
        """Per series: level, drift with its period (ticks) and phase, wave and its phase."""
        from scipy.special import ndtri

        every = np.arange(self.series)
        names = ("level", "drift", "length", "phase", "wave", "day")
        level, drift, length, phase, wave, day = (
            self._random(name, every, np.zeros_like(every)) for name in names
        )
        days = 25 + 35 * length
        return 10 + 0.5 * ndtri(level), 0.4 * drift, _DAY * days, phase, 0.1 + 0.3 * wave, day

    def values(self, rows: Integers) -> Floats:
        """mv of these readings."""
        # Here, because loading it takes a time that a reader of studies need not wait.
        from scipy.special import ndtri

        series, ticks = rows % self.series, rows // self.series
        level, drift, length, phase, wave, day = (column[series] for column in self._waves)
        value: Floats = level + drift * np.sin(2 * np.pi * (ticks / length + phase))
        value += wave * np.sin(2 * np.pi * (ticks / _DAY + day))
        value += _NOISE * ndtri(self._random("noise", series, ticks))
        spiky = self._random("spike", series, ticks) < _SPIKES
        value[spiky] -= _SPIKE * np.log(self._random("size", series[spiky], ticks[spiky]))
        return np.round(value, DECIMALS)

    def _key_columns(self, rows: Integers) -> tuple[Integers, Integers, Integers]:
        """m, s and bt."""
        series, ticks = rows % self.series, rows // self.series
        # Sensors are not read all at once, but in the first half of their period.
        offset = series * (PERIOD // 2) // self.series
        m, s = series // self.sensors + 1, series % self.sensors + 1
        return m, s, FIRST + ticks * PERIOD + offset

    def ids(self, rows: Integers) -> list[bytes]:
        """Keys of readings, as `MEASURES.pack` makes them."""
        raw = np.empty(len(rows), dtype=[("m", ">u2"), ("s", ">u2"), ("bt", ">u8")])
        raw["m"], raw["s"], raw["bt"] = self._key_columns(rows)
        data = raw.tobytes()
        return [data[at : at + 12] for at in range(0, len(data), 12)]

    def tuples(self, rows: Integers) -> Iterator[tuple[int, int, int, int, float]]:
        """m, s, bt, et and mv of readings."""
        m, s, begin = self._key_columns(rows)
        # A reading takes a tenth to a half of the period.
        share = 0.1 + 0.4 * self._random("et", rows % self.series, rows // self.series)
        end = begin + (PERIOD * share).astype(np.int64)
        columns = (m, s, begin, end, self.values(rows))
        return zip(*(column.tolist() for column in columns), strict=True)

    def documents(self, rows: Integers) -> list[Document]:
        return [
            {"_id": i, "m": m, "s": s, "bt": bt, "et": et, "mv": mv}
            for i, (m, s, bt, et, mv) in zip(self.ids(rows), self.tuples(rows), strict=True)
        ]

    def rows(
        self,
        start: int,
        stop: int,
        share: tuple[int, int] = (0, 1),
        store: tuple[int, int] = (0, 1),
    ) -> Iterator[Integers]:
        """The numbers start..stop-1 in chunks: of so many equal shares, or embedded stores, what
        belongs to the one with this number (number, how many).

        An embedded store has the series whose machine and sensor number sum to its own modulo the
        number of stores, so that the store of a key follows from the key.
        """
        part, parts = share
        number, stores = store
        first, end = (start + (stop - start) * n // parts for n in (part, part + 1))
        for at in range(first, end, CHUNK):
            rows = np.arange(at, min(at + CHUNK, end))
            m, s, _ = self._key_columns(rows)
            yield rows[(m + s) % stores == number]

    def batches(self, chunks: Iterable[Integers], size: int) -> Iterator[list[Document]]:
        """The documents of chunks of readings in batches of `size`, the last one shorter."""
        documents = chain.from_iterable(map(self.documents, chunks))
        while batch := list(islice(documents, size)):
            yield batch


def store_of(document_id: bytes, stores: int) -> int:
    """The embedded store that a key belongs to."""
    m, s = int.from_bytes(document_id[:2], "big"), int.from_bytes(document_id[2:4], "big")
    return (m + s) % stores


#: Threads of a process wait for the first that computes.
_LOCK = Lock()


@lru_cache(maxsize=2)
def _sample(readings: Readings, rows: int) -> tuple[Floats, bool]:
    """The first `rows` values in rising order, and whether these are all; above `EXACT_ROWS` a
    systematic sample of whole chunks."""
    step = -(-rows // EXACT_ROWS)
    starts = range(0, rows, CHUNK * step)
    chunks = [readings.values(np.arange(at, min(at + CHUNK, rows))) for at in starts]
    return np.sort(np.concatenate(chunks)), step == 1


def threshold(readings: Readings, rows: int, percent: float) -> tuple[float, int | None]:
    """The value that round(rows * percent / 100) of the first `rows` readings exceed, at least one
    (fewer where readings are equal), and how many these are: an order statistic, exact up to
    `EXACT_ROWS`. Of more readings it is that of a sample, and None of them are counted."""
    with _LOCK:
        values, whole = _sample(readings, rows)
    place = len(values) - max(1, round(len(values) * percent / 100)) - 1
    # All of them lie above a value just below the least.
    value = float(values[place]) if place >= 0 else float(values[0]) - 10.0**-DECIMALS
    above = len(values) - int(np.searchsorted(values, value, side="right"))
    return value, above if whole else None


def csv_lines(readings: Readings, rows: Integers) -> str:
    """Lines ``m,s,bt,et,mv`` with the very numbers that a store gets."""
    return "".join(
        f"{m},{s},{bt},{et},{mv:.{DECIMALS}f}\n" for m, s, bt, et, mv in readings.tuples(rows)
    )
