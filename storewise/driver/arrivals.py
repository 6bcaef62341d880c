"""The planned start times of the operations of an open loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from storewise.metrics.recorder import NS

#: Gaps that are drawn at once.
_CHUNK = 1024
#: Part of the seed, so that no other random stream of the trial is the same.
_STREAM = 0x6172


def arrivals(
    kind: Literal["constant", "poisson"],
    rate: float,
    client: int,
    clients: int,
    seed: int,
    step: int,
) -> Iterator[int]:
    """Intended starts of one client's operations, in ns from the step's start; endless.

    All clients in total begin `rate` operations per second. `constant`: each client begins one
    every clients / rate seconds, and the clients take turns evenly. `poisson`: gaps of each client
    are exponential with that mean (independent Poisson processes add up to one of the sum of their
    rates), from a stream that belongs to seed, step and client.
    """
    interval = clients / rate * NS
    if kind == "constant":
        # Multiplied, not added up: a rounding error of an interval must not grow.
        return (int((number + client / clients) * interval) for number in itertools.count())
    entropy = np.random.SeedSequence([seed, _STREAM, step], spawn_key=(client,))
    return _poisson(interval, np.random.default_rng(entropy))


def _poisson(interval: float, generator: np.random.Generator) -> Iterator[int]:
    at = 0.0
    while True:
        times = at + np.cumsum(generator.exponential(interval, _CHUNK))
        at = float(times[-1])
        yield from times.astype(np.int64).tolist()


@dataclass(slots=True)
class Pace:
    """Delays of an open loop behind its rate; sums and longest times of several clients."""

    intended: int = 0
    """Operations with an intended start within the step."""
    unserved: int = 0
    """Intended operations that had not begun at the end of the step."""
    span: int = 0
    """ns from the step's start to the last intended start."""
    late: int = 0
    """ns by which the last operation began late, less one interval of its client."""

    def merge(self, other: Pace) -> None:
        self.intended += other.intended
        self.unserved += other.unserved
        self.span = max(self.span, other.span)
        self.late = max(self.late, other.late)

    @property
    def missed(self) -> float:
        """The larger of two fractions: operations that did not begin in the step, and the delay of
        the last one relative to the step's length."""
        if not self.intended:
            return 0.0
        late = self.late / (self.span + self.late) if self.late > 0 else 0.0
        return max(self.unserved / self.intended, late)
