"""The result part of a node: its samples and times, and the conditions under which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Installation, ServerEngine
from storewise.metrics.host import facts, host_name
from storewise.metrics.schema import Sample, write_part
from storewise.session.coordination.cluster import GoneNode
from storewise.session.coordination.liveness import Session
from storewise.session.jobs.node_job import NodeJob
from storewise.session.server.server import Server

#: Phase of a node's samples: a session spans all phases of its trial.
PHASE = "session"


def _port_guards(engine: ServerEngine, endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """The further ports of the server, by name, and what guards each."""
    guards = engine.peer_guards(endpoint)
    return {
        name: {"port": port, "guard": guards.get(name, "")} for name, port in endpoint.ports.items()
    }


def write_node_part(
    job: NodeJob,
    session: Session,
    engine: ServerEngine,
    server: Server,
    installation: Installation,
    gone: GoneNode,
    *,
    times: Mapping[str, float],
    samples: Sequence[Sample],
    warnings: Sequence[str],
) -> None:
    """Write it; `times` are in s."""
    trial, spec = job.trial, server.node.spec
    rows = [
        *samples,
        *(Sample(PHASE, metric, value, "s", node=job.node) for metric, value in times.items()),
        Sample(PHASE, "node_bytes", gone.bytes, "B", node=job.node),
    ]
    conditions: dict[str, Any] = {
        "trial": trial.model_dump(mode="json"),
        "phase": PHASE,
        "node": job.node,
        "role": spec.role,
        "threads": spec.threads,
        "memory_mb": spec.memory_mb,
        "address": server.node.address,
        "guard": engine.guards(server.endpoint),
        "ports": _port_guards(engine, server.endpoint),
        "open_ports": dict(engine.open_ports(spec, trial.topology, trial.settings)),
        "seed": trial.seed,
        "versions": {"server": installation.version},
        "programs": {name: str(path) for name, path in installation.programs.items()},
        "host": facts(),
        "kept": gone.kept,
        "warnings": list(warnings),
        "run": session.run,
        "opened": session.opened,
    }
    write_part(
        job.result,
        rows,
        trial=trial.id,
        repeat=trial.repeat,
        host=host_name(),
        factors=trial.factors,
        conditions=conditions,
    )
