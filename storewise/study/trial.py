"""A trial: one combination of the factors' levels and one repeat, with all that its jobs need.

A trial is plain data. The workflow hands it to each of its jobs as JSON, so that a job needs no
study file and sees exactly what the rule's recorded parameters say.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from storewise.documents import Kind
from storewise.engines.contract.engine import IndexTime, Schema
from storewise.engines.contract.server import NodeSpec, ServerEngine, Topology
from storewise.engines.registry import engine
from storewise.study.host_classes import DATA
from storewise.workloads.registry import workload

#: Characters of a job's name that qstat(1B) shows.
SHOWN = 15


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Phase(_Plain):
    """A phase of a trial, its parameters checked against the workload already."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)
    steps: list[dict[str, Any]] = Field(default_factory=list)
    """Overrides of `params` or of `threads`, one after the other on the same data."""

    def step_overrides(self) -> list[dict[str, Any]]:
        """One entry per step; a phase without steps is one step without overrides."""
        return self.steps or [{}]


class Trial(_Plain):
    """One trial of a study."""

    study: str
    id: str
    engine: str
    workload: str
    repeat: int
    seed: int
    factors: dict[str, Any]
    """Every factor with this trial's level, `engine` among them."""
    workers: int = 1
    processes: int = 1
    threads: int = 1
    consistency: str = ""
    index_time: IndexTime = "none"
    indexes: list[tuple[str, str]] = Field(default_factory=list)
    """Secondary indexes as (table, field)."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine."""
    phases: list[Phase]
    nodes: int = 1
    """Data nodes, and below what else `Topology` has; of no meaning to embedded engines."""
    replicas: int = 1
    routers: int = 0
    node_threads: int = 1
    node_memory_mb: int = 1024
    allow_open_ports: bool = False
    """Servers without authentication may listen where other hosts reach them."""
    keep_data: bool = False
    study_fields: bool = False
    on_bad_input: Literal["fail", "quarantine"] = "fail"
    volume: float = 1.0
    """Share of the input files that it loads."""
    verify: int = 200
    """Documents of each kind that the verification reads back."""

    @property
    def shards(self) -> int:
        """Parts into which the inputs are cut: one per writing process."""
        return self.workers * self.processes

    @property
    def shard_list(self) -> str:
        """The name of the list of its shards; a share of the files has a list of its own."""
        return f"{self.shards}" if self.volume == 1 else f"{self.shards}of{self.volume:.6g}"

    @property
    def node_class(self) -> str:
        """The class of its nodes' hosts.

        A property, not a field: a new field would change every stored trial's id.
        """
        return str(self.factors.get("node_class", DATA))

    @property
    def topology(self) -> Topology:
        """The shape of its cluster."""
        return Topology(
            nodes=self.nodes,
            replicas=self.replicas,
            routers=self.routers,
            threads=self.node_threads,
            memory_mb=self.node_memory_mb,
        )

    def phase(self, name: str) -> Phase:
        """The phase called `name`; KeyError where the trial has none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    @property
    def load(self) -> Phase:
        """The loading phase."""
        return self.phases[0]

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of documents that its workload stores."""
        return workload(self.workload).kinds(self.load.params)

    def store_schema(self) -> Schema:
        """The tables and indexes that its clients create before the load."""
        tables = {kind.table: kind for kind in self.kinds()}
        return Schema(
            kinds=tuple(tables.values()),
            indexes=tuple((tables[table], name) for table, name in self.indexes),
            index_time=self.index_time,
            study_fields=self.study_fields,
        )


def node_specs(trial: Trial) -> tuple[NodeSpec, ...]:
    """All roles of a trial's cluster, those on worker hosts too; none for an embedded engine."""
    store = engine(trial.engine)
    return store.roles(trial.topology, trial.settings) if isinstance(store, ServerEngine) else ()


def node_jobs(trial: Trial) -> tuple[NodeSpec, ...]:
    """The nodes of a trial that are jobs of their own."""
    return tuple(spec for spec in node_specs(trial) if spec.placement == "node")


def trial_id(factors: Mapping[str, Any], repeat: int) -> str:
    """A readable prefix and a short hash of the factors' levels and the repeat.

    It does not depend on the trial's position nor on which other trials the study has.
    """
    text = json.dumps({"factors": factors, "repeat": repeat}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    store = re.sub(r"[^a-z0-9]+", "", str(factors.get("engine", "trial")).lower())
    workers = f"-w{factors['workers']}" if "workers" in factors else ""
    return f"{store}{workers}-r{repeat}-{digest}"


def job_name(job: str, trial: Trial) -> str:
    """A name for a job of a trial in a scheduler's queue, ``data0.pos-w2-r1.0d8fc281``.

    qstat shows the first 15 characters: they hold the job, the trial's workers and repeat; the
    engine's name is cut to the room that is left (at least two characters).
    """
    store, _, rest = trial.id.partition("-")
    rest, _, digest = rest.rpartition("-")
    room = max(2, SHOWN - len(job) - len(rest) - 2)
    return f"{job}.{store[:room]}-{rest}.{digest}"


def trial_seed(study_seed: int, identifier: str) -> int:
    """The trial's own seed, from its id and the study's seed, never from its position."""
    digest = hashlib.sha256(f"{study_seed}:{identifier}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
