"""The workload contract: what clients do in a phase.

A workload knows the engine contract, not the engines, and not how it is driven: it yields
operations, and the driver calls, times and records them. What a workload does between two
operations (parsing, drawing ids) is recorded by the driver as the operation's *preparation*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from storewise.engines.base import Client, Engine, Schema


class Operation(NamedTuple):
    """One call against the store.

    `call` does it and returns the number of documents that it moved; an exception of type
    StorewiseError counts as a failed operation. `name` is one of the phase's `operations`.
    `owner` is the node that will answer, where the client can tell. Where the bytes are known
    only afterwards, `size` tells them; it is called after the clock has stopped.
    """

    name: str
    call: Callable[[], int]
    documents: int = 1
    bytes: int = 0
    owner: str | None = None
    size: Callable[[], int] | None = None


class LoadedFile(NamedTuple):
    """One input file that a client has stored whole, with the counts of its full parse."""

    path: str
    digest: bytes
    bytes: int
    queries: int
    alignments: int
    shard: int

    @property
    def documents(self) -> int:
        return self.queries + 3 * self.alignments


class RefusedFile(NamedTuple):
    """One input file that turned out to be bad while it was stored; nothing of it is kept."""

    path: str
    reason: str
    line: int | None
    offset: int | None


class PhaseParams(BaseModel):
    """Parameters of a phase that every workload knows; each phase adds its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operations: int | None = Field(
        default=None, ge=1, description="end after this many operations over all clients"
    )
    seconds: float | None = Field(default=None, gt=0, description="end after this time")
    warmup: float = Field(
        default=0.0, ge=0, description="seconds at the start that are marked as warm-up"
    )


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What one client (one thread of one process of one worker) knows of its place."""

    engine: Engine
    schema: Schema
    params: Any
    """The phase's parameters, already merged with the step's overrides."""
    shards: Path
    """The Parquet file with one row per input file and its shard (``ssearch.shards``)."""
    worker: int
    workers: int
    process: int
    processes: int
    thread: int
    threads: int
    seed: int
    """Of the trial; a client derives its own stream from it and its place."""
    step: int = 0
    study_fields: bool = False
    phase: str = ""
    written: tuple[Path, ...] = ()
    """After the load: the lists of the files that its workers stored, with true counts."""
    loaded: list[LoadedFile] = field(default_factory=list)
    """A loading client appends each file that it has stored whole."""
    quarantine: bool = False
    """Go on without a bad input file instead of failing."""
    refused: list[RefusedFile] = field(default_factory=list)
    """A loading client appends each bad file that it went on without."""

    @property
    def client(self) -> int:
        """This client's number, from 0, over all workers, processes and threads."""
        return (self.worker * self.processes + self.process) * self.threads + self.thread

    @property
    def clients(self) -> int:
        return self.workers * self.processes * self.threads

    @property
    def shard(self) -> int:
        """The shard of this client's process: write phases have one shard per process."""
        return self.worker * self.processes + self.process


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """A phase as its workload describes it."""

    name: str
    params: type[PhaseParams]
    operations: tuple[str, ...]
    """Names of the operations that it may yield; the first is its main one."""
    loads: bool
    """True where the phase makes the store's data, so that clients connect to write."""


class Workload(ABC):
    """What clients do, phase by phase."""

    name: ClassVar[str]
    phases: ClassVar[Mapping[str, PhaseSpec]]

    @abstractmethod
    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        """The operations of one client in one step of a phase, in order.

        Called before the step's barrier: what must be read or built first is done in this call,
        not when the first operation is asked for.

        The iterator ends when its share of the work is done; the driver also stops it at the
        phase's time limit. Errors raised by the iterator itself end the trial.
        """
