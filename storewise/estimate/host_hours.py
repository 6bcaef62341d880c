"""For how long hosts are paid: trials one after another on hosts that start when needed and end
when idle, as clusters in a cloud have them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Stay:
    """A trial: it takes so many hosts of each class for so many seconds, all at once."""

    seconds: float
    hosts: Mapping[str, int]


@dataclass(slots=True)
class Use:
    """What the hosts of one class are paid for, in hours of hosts, and how many there are."""

    busy: float = 0.0
    starting: float = 0.0
    idle: float = 0.0
    starts: int = 0
    most: int = 0

    @property
    def hours(self) -> float:
        return self.busy + self.starting + self.idle


@dataclass(slots=True)
class _Pool:
    """Hosts of one class: since when each is idle, and until when the busy ones are not."""

    idle_since: list[float] = field(default_factory=list)
    use: Use = field(default_factory=Use)


def occupied(
    stays: Sequence[Stay], *, lanes: int = 1, start_up: float = 0.0, idle: float = 0.0
) -> tuple[dict[str, Use], float]:
    """Hours of hosts by class, and how long all of it takes, in s.

    `lanes` trials run at a time, in the order given; each begins when all of its hosts are there. A
    host takes `start_up` seconds to start and ends when it has been idle for `idle` seconds; it is
    paid from its start to its end. Those that have been idle for the shortest time are taken first.
    """
    pools: dict[str, _Pool] = {}
    free = [0.0] * lanes
    last = 0.0
    for stay in stays:
        now = heapq.heappop(free)
        missing = 0
        taken: list[tuple[_Pool, list[float], int]] = []
        for name, number in stay.hosts.items():
            pool = pools.setdefault(name, _Pool())
            gone = [since for since in pool.idle_since if now - since > idle]
            pool.use.idle += len(gone) * idle / HOUR
            pool.idle_since = [since for since in pool.idle_since if now - since <= idle]
            # Those of other lanes are not free before their own time.
            there = sorted((t for t in pool.idle_since if t <= now), reverse=True)[:number]
            for since in there:
                pool.idle_since.remove(since)
            taken.append((pool, there, number - len(there)))
            missing += number - len(there)
        begin = now + (start_up if missing else 0.0)
        end = begin + stay.seconds
        for pool, there, new in taken:
            pool.use.idle += sum(begin - since for since in there) / HOUR
            pool.use.starting += new * (begin - now) / HOUR
            pool.use.starts += new
            pool.use.busy += (len(there) + new) * stay.seconds / HOUR
            pool.idle_since += [end] * (len(there) + new)
            pool.use.most = max(pool.use.most, len(pool.idle_since))
        heapq.heappush(free, end)
        last = max(last, end)
    for pool in pools.values():
        pool.use.idle += len(pool.idle_since) * idle / HOUR
    return {name: pool.use for name, pool in pools.items()}, last
