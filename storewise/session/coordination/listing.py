"""The sessions that are live now below a results directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storewise.atomic import holds
from storewise.layout import LEASES, LIVE
from storewise.session.coordination.cluster import gone_nodes, ready_nodes, started_nodes
from storewise.session.coordination.live_directory import sessions
from storewise.session.coordination.liveness import ABORT, FINISHED, members, read_abort
from storewise.session.coordination.system import SYSTEM, System

#: Jobs of a trial that are no workers of a phase.
_OTHERS = ("form", "close", "verify")


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node of a live session."""

    node: str
    host: str
    state: str
    """``starting``, ``answers`` or ``gone``."""
    address: str
    """``address:port``, empty until it answers."""
    guard: str


@dataclass(frozen=True, slots=True)
class LiveSession:
    """A trial that is being measured."""

    id: str
    """``study/trial``."""
    run: str
    age: float
    """Seconds since it was opened."""
    lease_age: float | None
    """Seconds since its run has renewed its lease; None where the lease has gone."""
    lease_seconds: float
    phase: str
    jobs: tuple[str, ...]
    """Registered jobs as ``name@host``."""
    nodes: tuple[NodeState, ...]
    ending: str
    """Why it ends, empty while it goes on."""


def live_sessions(results: Path, system: System = SYSTEM) -> list[LiveSession]:
    """All live sessions of all studies below `results`, oldest first."""
    studies = sorted(path for path in results.glob("*/") if (path / LIVE).is_dir())
    live = [session for study in studies for session in sessions_of(study, system)]
    return sorted(live, key=lambda session: -session.age)


def sessions_of(study: Path, system: System = SYSTEM) -> list[LiveSession]:
    """The live sessions of one study, given by its directory of results, oldest first.

    The files of a trial that is measured stay until its run ends: it is not live.
    """
    listed = []
    now = system.time()
    for live, session in sessions(study):
        if session is None or holds(live, FINISHED):
            continue
        try:
            # The file server's clock may be ahead of this host's.
            lease_age = max(0.0, now - (study / LEASES / session.run).stat().st_mtime)
        except FileNotFoundError:
            lease_age = None
        jobs = members(live)
        try:
            reason = read_abort(live / ABORT).reason if holds(live, ABORT) else ""
        except FileNotFoundError:
            continue  # cleared away by the next run while it was read
        listed.append(
            LiveSession(
                id=f"{study.name}/{session.trial}",
                run=session.run,
                age=max(0.0, now - session.opened),
                lease_age=lease_age,
                lease_seconds=session.lease_seconds,
                phase=_phase(live, set(jobs)),
                jobs=tuple(f"{name}@{process.host}" for name, process in jobs.items()),
                nodes=_nodes(live),
                ending=reason,
            )
        )
    return sorted(listed, key=lambda session: -session.age)


def _phase(live: Path, jobs: set[str]) -> str:
    for name in (*_OTHERS, *sorted(job.split(".")[0] for job in jobs if "." in job)):
        if name in jobs or any(job.startswith(f"{name}.") for job in jobs):
            return name
    return "between phases" if jobs else "opened"


def _nodes(live: Path) -> tuple[NodeState, ...]:
    ready, gone = ready_nodes(live), gone_nodes(live)
    nodes = []
    for name, started in started_nodes(live).items():
        address = guard = ""
        if node := ready.get(name):
            address, guard = f"{node.endpoint.address}:{node.endpoint.port}", node.guard
        state = "gone" if name in gone else "answers" if name in ready else "starting"
        nodes.append(NodeState(name, started.host, state, address, guard))
    return tuple(nodes)
