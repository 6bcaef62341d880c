"""Leases: how runs and jobs know whether a run, maybe on another host, is still alive."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from storewise.atomic import read_as, write_aside
from storewise.errors import ConfigError
from storewise.layout import LEASES
from storewise.session.coordination.liveness import LeaseWatch, Process
from storewise.session.coordination.system import SYSTEM, System

#: Seconds after which an unchanged lease is stale.
LOCAL_LEASE = 25.0
CLUSTER_LEASE = 90.0
SMALLEST_LEASE = 2.0
POLL = 0.1
#: Environment variable that sets the duration of a lease, s.
LEASE_VARIABLE = "STOREWISE_LEASE_SECONDS"
#: Ids of cluster jobs by kind (`storewise.schedulers.queue`).
ClusterJobs = Mapping[str, tuple[str, ...]]


def lease_seconds(*, on_cluster: bool) -> float:
    """Seconds for which a lease holds; raises ConfigError for an invalid setting."""
    text = os.environ.get(LEASE_VARIABLE)
    if text is None:
        return CLUSTER_LEASE if on_cluster else LOCAL_LEASE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SMALLEST_LEASE <= seconds < math.inf:
        raise ConfigError(
            f"{LEASE_VARIABLE}={text}: expected seconds, at least {SMALLEST_LEASE:.0f}"
        )
    return seconds


def renew_every(lease: float) -> float:
    """Seconds from one renewal of a lease to the next: some may come late, and it still holds."""
    return min(3.0, lease / 4)


@dataclass(frozen=True, slots=True)
class Lease:
    """The content of a lease file: its run."""

    run: str
    process: Process
    seconds: float
    locks: tuple[str, ...] = ()
    """Snakemake lock files that the run holds, to be removed with it."""
    jobs: ClusterJobs = field(default_factory=dict)
    """Its cluster jobs that have not ended: the next run cancels those of a killed one."""

    def write(self, directory: Path) -> None:
        write_aside(directory / self.run, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Lease:
        return read_as(cls, path)


def lease_files(results: Path) -> list[Path]:
    """The leases of all runs; the name of each is its run's id."""
    return sorted((results / LEASES).glob("[!.]*"))


def dead_leases(
    results: Path, say: Callable[[str], None], system: System = SYSTEM
) -> list[tuple[Path, Lease | None]]:
    """The leases of runs that have certainly ended, as (path, lease); None for an unreadable lease.

    Polls each lease until it is renewed or has expired (`LeaseWatch`): up to 90 s on a cluster. A
    run whose process runs on this host is alive.
    """
    watched: dict[Path, tuple[Lease | None, LeaseWatch]] = {}
    for path in lease_files(results):
        lease, seconds = None, CLUSTER_LEASE
        try:
            lease = Lease.read(path)
            seconds = lease.seconds
        except FileNotFoundError:
            continue
        except ValueError:
            say(f"{path} is damaged: a host has crashed, or its disk was full")
        if lease is None or not lease.process.alive(system):
            watch = LeaseWatch(results, path.name, seconds, clock=system.clock)
            watched[path] = lease, watch
            say(f"is run {path.name} still alive? It has {seconds:.0f} s to renew its lease")
    dead: list[tuple[Path, Lease | None]] = []
    while watched:
        for path, (lease, watch) in list(watched.items()):
            ended = watch.reason() is not None
            if ended or watch.renewed():
                del watched[path]
            if ended and path.exists():
                dead.append((path, lease))
        if watched:
            system.sleep(POLL)
    return dead


def live_leases(results: Path, say: Callable[[str], None], system: System = SYSTEM) -> list[Path]:
    """The leases of runs that may be alive; waits until all others have expired (`dead_leases`)."""
    dead = {path for path, _ in dead_leases(results, say, system)}
    return [path for path in lease_files(results) if path not in dead]


def looks_stale(path: Path, system: System = SYSTEM) -> bool:
    """Guess without waiting whether the run of a lease has ended. For display only: it compares
    the lease file's time with this host's clock."""
    try:
        lease = Lease.read(path)
        alive = lease.process.alive(system)
        return alive is False or (
            alive is None and system.time() - path.stat().st_mtime > 2 * lease.seconds
        )
    except (OSError, ValueError):
        return True
