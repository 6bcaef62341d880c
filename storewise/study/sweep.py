"""Steps of a phase in a study: how many clients work in each, and sweeps that stand for many.

A sweep is a shorthand: ``sweep: {clients: [1, 2, 4], rate: [100, 200]}`` means six steps, one for
each combination, the first key's values changing slowest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storewise.yamlfile import shown

#: Client threads of one step, at most: more is a slip of the pen.
MOST_CLIENTS = 8192
#: Steps of one sweep, at most.
MOST_STEPS = 1000


def expand_sweep(sweep: Any) -> list[dict[str, Any]]:
    """The steps that a sweep means, one mapping of overrides each.

    Raises ValueError for what is no mapping of parameters to lists of values.
    """
    if not isinstance(sweep, Mapping) or not sweep:
        raise ValueError(
            "sweep must map parameters to lists of values, such as `sweep: {clients: [1, 2, 4]}`"
        )
    levels: dict[str, list[Any]] = {}
    for key, values in sweep.items():
        if key in ("sweep", "steps", "search"):
            raise ValueError(f"sweep cannot vary {key!r}")
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"sweep: {key} must be a list of values with at least one of them; found "
                f"{shown(values)}"
            )
        if len(values) > MOST_STEPS:
            raise ValueError(f"sweep: {key} has {len(values):,} values; {MOST_STEPS:,} is the most")
        if any(value in values[:at] for at, value in enumerate(values)):
            raise ValueError(f"sweep: {key} has a value twice; a repeated step goes into `steps`")
        levels[str(key)] = values
    steps = math.prod(map(len, levels.values()))
    if steps > MOST_STEPS:
        raise ValueError(f"sweep means {steps} steps; {MOST_STEPS} is the most")
    return [
        dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())
    ]


@dataclass(frozen=True, slots=True)
class Clients:
    """The client threads of a step: `threads` in each process, or `total` over all of them."""

    threads: int
    total: int | None = None

    def here(self, worker: int, workers: int, process: int, processes: int) -> tuple[int, int]:
        """(number of the first client, number of clients) of one process.

        A total is spread as evenly as possible: first over workers, then over their processes.
        Where there are fewer clients than processes, some processes have none.
        """
        if self.total is None:
            return (worker * processes + process) * self.threads, self.threads
        each, rest = divmod(self.total, workers * processes)
        place = process * workers + worker
        return place * each + min(place, rest), each + (place < rest)

    def most(self, workers: int, processes: int) -> int:
        """Threads of the process that has the most."""
        return self.here(0, workers, 0, processes)[1]

    def all(self, workers: int, processes: int) -> int:
        """Threads of all processes."""
        return self.threads * workers * processes if self.total is None else self.total


def take_clients(
    params: Mapping[str, Any], override: Mapping[str, Any], threads: int
) -> tuple[dict[str, Any], Clients]:
    """A step's parameters, without `threads` and `clients`, and the clients that these mean.

    `threads` is the trial's own number per process. What a step says counts more than what its
    phase says. Raises ValueError for numbers that cannot be.
    """
    if "threads" in override and "clients" in override:
        raise ValueError("a step has either `threads` (of each process) or `clients` (of all)")
    values = {**params, **override}
    given_threads, total = values.pop("threads", None), values.pop("clients", None)
    if "threads" in override:
        total = None
    elif "clients" in override:
        given_threads = None
    for name, number in (("threads", given_threads), ("clients", total)):
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ValueError(f"{name} is {shown(number)}, expected a whole number from 1 on")
        if number > MOST_CLIENTS:
            raise ValueError(f"{name} is {number}; {MOST_CLIENTS} is the most")
    return values, Clients(threads if given_threads is None else given_threads, total)
