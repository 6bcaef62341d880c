"""What a worker and its client processes say to each other over their pipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storewise.driver.arrivals import Paced
from storewise.driver.worker_job import Step
from storewise.errors import StorewiseError
from storewise.metrics.outages import Marks
from storewise.metrics.recorder import Recorded
from storewise.workloads.contract import LoadedFile, RefusedFile


@dataclass(frozen=True, slots=True)
class Prepare:
    """Connect, if that is not done, and make all clients ready for a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close all clients: the servers will be restarted."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """All clients of a process are closed."""


@dataclass(frozen=True, slots=True)
class End:
    """There are no more steps."""


@dataclass(frozen=True, slots=True)
class Ended:
    """All clients of a process are closed, and its process ends."""


@dataclass(frozen=True, slots=True)
class Ready:
    """All clients of a process are prepared for a step."""


@dataclass(frozen=True, slots=True)
class Go:
    """Begin; `zero` is the step's start in perf_counter_ns, which processes of a host share."""

    zero: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """All clients of a process have loaded their part into a server."""


@dataclass(frozen=True, slots=True)
class Finish:
    """All clients of all workers have; the process with this number ends the load."""

    by: int | None


@dataclass(slots=True)
class Done:
    """What a process did in a step; times in perf_counter_ns."""

    recorded: Recorded
    end: int
    status: dict[str, float]
    """Differences of the engine's own counters over the step."""
    disk_bytes: int | None
    loaded: list[LoadedFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    paced: Paced | None = None
    """Of an open loop."""
    marks: Marks = field(default_factory=dict)
    """When operations succeeded, in a step with a crash."""


@dataclass(slots=True)
class Failure:
    """Why a process ended. `error` is the exception where it is one of ours."""

    error: StorewiseError | None
    text: str
    trace: str
