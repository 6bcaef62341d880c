"""The input of a worker job, and the steps of a phase."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from storewise.engines.contract.engine import Cluster, Engine
from storewise.errors import ConfigError
from storewise.metrics.schema import read_conditions
from storewise.study.sweep import Clients, take_clients
from storewise.study.trial import Trial
from storewise.workloads.contract import PhaseParams, PhaseSpec


@dataclass(frozen=True, kw_only=True)
class ClientJob:
    """A job of a trial that connects clients to its store: a worker or the verification."""

    trial: Trial
    shards: Path | None
    """The Parquet file with one row per input file and its shard, where the workload has inputs."""
    result: Path
    """Path of the result part."""
    stores: tuple[Path, ...] = ()
    """After the load: the store directories of all loading workers, in worker order (embedded
    engines)."""
    written: tuple[Path, ...] = ()
    """After the load: the lists of files that the loading workers stored."""
    before: tuple[Path, ...] = ()
    """After the load: result parts of all workers of all earlier phases."""
    cluster: Cluster | None = None
    """The cluster that clients of a server engine connect to; None for embedded engines."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the servers."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Kept in the result's metadata, with what the job adds."""


@dataclass(frozen=True, kw_only=True)
class WorkerJob(ClientJob):
    """One worker of one phase of a trial."""

    phase: str
    worker: int
    live: Path
    """A directory that all jobs of the trial share while it lives."""
    hdr_log: Path
    """Path of the interval log."""
    store: Path | None = None
    """Directory in which a loading worker makes its stores: p0, p1, ..., one per process."""
    files: Path | None = None
    """Path of the list of stored files, which a loading worker writes."""
    routers: tuple[int, ...] = ()
    """Process ids of servers that this worker has started beside its clients."""
    notes: tuple[dict[str, Any], ...] = ()
    """Notes of the clients of earlier phases for later ones (`earlier_phases`)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a phase: its number, its checked parameters and its clients."""

    number: int
    params: PhaseParams
    clients: Clients

    @property
    def kills_nodes(self) -> bool:
        """Whether this step kills a node: then errors are expected, and outages are measured."""
        return self.params.crash is not None


def steps_of(trial: Trial, spec: PhaseSpec) -> list[Step]:
    """The steps of a phase; raises ConfigError, naming phase and step, for what does not fit."""
    phase = trial.phase(spec.name)
    steps = []
    for number, override in enumerate(phase.step_overrides()):
        where = f"phase {spec.name!r}" + (f", step {number}" if phase.steps else "")
        try:
            values, clients = take_clients(phase.params, override, trial.threads)
            steps.append(Step(number, spec.params.model_validate(values), clients))
        except ValidationError as error:
            texts = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            raise ConfigError(
                f"{where}: {'; '.join(text.removeprefix(': ') for text in texts)}"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error
    if spec.loads and len(steps) > 1:
        raise ConfigError(f"phase {spec.name!r} loads the store and can have one step only")
    if spec.loads and steps[0].clients.total is not None:
        raise ConfigError(
            f"phase {spec.name!r} loads the store: each process has its part of the data, so give "
            "`threads` instead of `clients`"
        )
    return steps


def load_params(trial: Trial, spec: PhaseSpec) -> PhaseParams:
    """The checked parameters of the loading phase; ConfigError for what does not fit."""
    return steps_of(trial, spec)[0].params


def notes_of(parts: Sequence[Path]) -> tuple[dict[str, Any], ...]:
    """Notes of the clients of earlier phases for later ones, in the order of their result parts."""
    return tuple(note for part in parts for note in read_conditions(part).get("notes", ()))


def must_succeed(engine: Engine, trial: Trial) -> bool:
    """Whether a lost or refused document makes the trial fail; else it is a measurement.

    True at all consistency levels that guarantee acknowledged documents: those that are not among
    the engine's `lossy_levels`.
    """
    level = trial.consistency or next(iter(engine.consistencies), "")
    return engine.flags.stores and level not in engine.lossy_levels


def versions(engine: Engine, settings: Mapping[str, Any]) -> dict[str, str]:
    """Versions of what took part in a measurement with these settings of the engine."""
    return {
        "storewise": version("storewise"),
        "python": platform.python_version(),
        "psutil": psutil.__version__,
        "hdrhistogram": version("hdrhistogram"),
        **{f"{engine.name}.{name}": text for name, text in engine.versions(settings).items()},
    }
