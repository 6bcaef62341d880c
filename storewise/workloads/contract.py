"""The workload contract: the operations of clients in a phase.

A workload uses the engine contract, not the engines or the driver: it yields operations, and the
driver calls, times and records them. The time between two operations (parsing, drawing ids) is
recorded as the operation's *preparation*.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Client, Engine, Placement, Schema, SourceFile
from storewise.workloads.faults import Crash, Slow


class Operation(NamedTuple):
    """One call against the store.

    `call` does it and returns the number of documents that it moved; an exception of type
    StorewiseError counts as a failed operation. `name` is one of the phase's `operations`.
    `owner` is the node that will answer, if the client knows it. If the bytes are known only
    afterwards, `size` returns them; it is called after the clock has stopped.
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
    format: str = ""
    """Text of an `InputFormat`."""

    @property
    def documents(self) -> int:
        return self.queries + 3 * self.alignments


class RefusedFile(NamedTuple):
    """One input file that was found to be bad while loading; none of it stays in the store."""

    path: str
    reason: str
    line: int | None
    offset: int | None


class SearchParams(BaseModel):
    """A search for the highest rate at which a percentile stays under a limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    percentile: float = Field(
        default=99.0, gt=0, le=100, description="the percentile that must stay under the limit"
    )
    limit_ms: float = Field(gt=0, description="the limit, in ms")
    low: float = Field(gt=0, description="the lowest rate that may be tried, in operations/s")
    high: float = Field(gt=0, description="the highest rate that may be tried, in operations/s")
    steps: int = Field(default=8, ge=2, le=64, description="steps of the search, at most")
    seconds: float = Field(default=5.0, gt=0, description="length of each step")
    time: Literal["response", "service"] = Field(
        default="response", description="whose percentile: response or service time"
    )

    @model_validator(mode="after")
    def _ordered(self) -> SearchParams:
        if self.high <= self.low:
            raise ValueError("`high` must be above `low`")
        return self


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
    rate: float | None = Field(
        default=None,
        gt=0,
        description="open loop: operations per second that begin, over all clients",
    )
    arrivals: Literal["constant", "poisson"] = Field(
        default="constant", description="when the operations of an open loop are meant to begin"
    )
    restart: bool = Field(
        default=False, description="all servers are stopped and started again before"
    )
    slow: Slow | None = Field(default=None, description="nodes that are slowed down meanwhile")
    crash: Crash | None = Field(default=None, description="a server that is killed meanwhile")
    limit_ms: float = Field(
        default=5.0, gt=0, description="per-node figures tell the share of operations beyond this"
    )
    search: SearchParams | None = Field(
        default=None,
        description="open loop whose rate is searched for: the highest at which a percentile "
        "stays under a limit",
    )

    @model_validator(mode="after")
    def _measured(self) -> PhaseParams:
        if self.seconds is not None and self.warmup >= self.seconds:
            raise ValueError(
                f"`warmup` ({self.warmup:g} s) must be shorter than the phase "
                f"({self.seconds:g} s): nothing would be measured"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _searched(cls, data: Any) -> Any:
        """A search sets the rate and the time of each of its steps."""
        search = data.get("search") if isinstance(data, dict) else None
        if search is None:
            return data
        limits = SearchParams.model_validate(search)
        for key, fixed in (("operations", None), ("rate", None), ("seconds", limits.seconds)):
            if data.get(key) not in (None, fixed):
                raise ValueError(f"a search sets `{key}` itself: leave it out")
        return {**data, "search": limits, "rate": limits.low, "seconds": limits.seconds}


class EndedParams(PhaseParams):
    """Parameters of a phase that `operations` or `seconds` must end."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.operations is None and self.seconds is None:
            raise ValueError("`operations` (over all clients) or `seconds` must end the phase")
        return self


class WholeParams(PhaseParams):
    """Parameters of a phase that ends when all of its data are stored."""

    for_less: ClassVar[str]
    """The parameter that reduces its data, for the error message."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.operations is not None or self.seconds is not None:
            raise ValueError(
                "the phase stores all of its data: `operations` and `seconds` cannot end it; for "
                f"less data use {self.for_less}"
            )
        return self


def blocks(total: int | None, size: int) -> Iterator[int]:
    """Sizes of blocks that sum to `total`, each of `size` but the last; without end for None."""
    done = 0
    while total is None or done < total:
        yield size if total is None else min(size, total - done)
        done += size


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The context of one client, which is one thread of one process of one worker."""

    engine: Engine
    schema: Schema
    params: Any
    """The phase's parameters, already merged with the step's overrides."""
    shards: Path | None
    """The Parquet file with one row per input file and its shard (``ssearch.shards``), for a
    workload that reads inputs."""
    client: int
    """This client's number, from 0, over all workers, processes and threads; and all of them."""
    clients: int
    shard: int
    """The number of this client's process, from 0, over all workers, and of its part of what a
    phase loads; and all processes."""
    processes: int
    thread: int
    """Number of this client's thread in its process; and all threads there."""
    threads: int
    seed: int
    """Seed of the trial; a client derives its own stream from it and its place."""
    step: int = 0
    phase: str = ""
    written: tuple[Path, ...] = ()
    """After the load: the lists of the files that its workers stored, with true counts."""
    loaded: list[LoadedFile] = field(default_factory=list)
    """A loading client appends each file that it has stored whole."""
    quarantine: bool = False
    """Go on without a bad input file instead of failing."""
    refused: list[RefusedFile] = field(default_factory=list)
    """A loading client appends each bad file that it went on without."""
    load: Any = None
    """The parameters of the loading phase."""
    notes: list[dict[str, Any]] = field(default_factory=list)
    """What later phases and the verification must know of this one: plain values that JSON has."""
    before: tuple[dict[str, Any], ...] = ()
    """The notes of all clients of earlier phases (and of earlier steps of this process)."""
    stores: int = 0
    """Store directories of an embedded engine, one for each process; 0 for servers."""
    one_store: bool = False
    """This client sees the store of its process only (`shard`), whose ids alone it may use."""

    @property
    def share(self) -> int | None:
        """This client's share of the step's `operations`; None if their number has no limit."""
        if self.params.operations is None:
            return None
        share, rest = divmod(self.params.operations, self.clients)
        return int(share + (self.client < rest))

    def stream(self, seed: int | None = None) -> Any:
        """A `numpy.random.Generator` of this client: no other client, phase, step or trial has its
        stream.

        `seed` stands for the trial's where it is given. SeedSequence mixes its entropy well
        (numpy.random.SeedSequence), so neighbouring numbers give independent streams.
        """
        import numpy as np  # jobs that only read a study need not pay for it

        phase = int.from_bytes(hashlib.blake2b(self.phase.encode(), digest_size=8).digest(), "big")
        entropy = [self.seed if seed is None else seed, phase, self.step]
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(self.client,)))


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """The specification of a phase, given by its workload."""

    name: str
    params: type[PhaseParams]
    operations: tuple[str, ...]
    """Names of the operations that it may yield; the first is its main one."""
    loads: bool
    """The phase loads the store, so clients connect to write."""
    changes: bool = False
    """The phase, which is not the load, changes data: clients connect to write, too."""
    needs: Callable[[Any], tuple[str, ...]] = lambda params: ()
    """Names of the engine flags that the phase needs with these parameters."""


@dataclass(frozen=True, slots=True)
class VerifyContext:
    """The arguments of `Workload.verify`: the store to verify and what was written to it."""

    engine: Engine
    client: Client
    load: Any
    """The parameters of the loading phase."""
    kinds: tuple[Kind, ...]
    seed: int
    sample: int
    """Documents of each kind to read back, at most."""
    written: tuple[Path, ...]
    notes: tuple[dict[str, Any], ...]
    """Notes of all clients of all phases, the loading phase's first."""
    raise_if_aborted: Callable[[], None]
    """Call it about twice a second: it raises Aborted when the trial is to end."""
    study_fields: bool = False


@dataclass(slots=True)
class Checked:
    """The result of verifying one kind, with the first difference as text."""

    name: str
    expected: int
    counted: int
    checked: int = 0
    lost: int = 0
    wrong: int = 0
    first: str | None = None

    def differs(self) -> bool:
        return bool(self.lost or self.wrong or self.counted != self.expected)


class Workload(ABC):
    """The operations of clients, phase by phase."""

    name: ClassVar[str]
    phases: ClassVar[Mapping[str, PhaseSpec]]
    reads_inputs: ClassVar[bool] = True
    """It loads SSEARCH outputs; others make their data themselves."""
    indexes: ClassVar[tuple[str, ...]] = ()
    """Secondary indexes (``table.field``) where a study names none."""

    def kinds(self, load: Mapping[str, Any]) -> tuple[Kind, ...]:
        """The kinds it stores, given the load's parameters; always the same objects."""
        return KINDS

    def documents_made(self, load: Mapping[str, Any]) -> int | None:
        """The number of documents that the load generates, given its parameters; None if it depends
        on the inputs."""
        return None

    def resolve(self, phase: str, params: Mapping[str, Any], base: Path) -> dict[str, Any]:
        """A phase's (or step's) parameters with canonical names, including those from files that
        they name; relative paths may start at `base`, the study's directory.

        Called once, when the study is read; raises ConfigError."""
        return dict(params)

    def clash(self, load: Any, params: Any) -> str | None:
        """A contradiction of a later phase's parameters to those of the load, or None."""
        return None

    @abstractmethod
    def placement(self, stores: int, written: Sequence[Path]) -> Placement:
        """A function from an id to the number of the embedded store that holds it."""

    def sources(
        self, shards: Path | None, written: Sequence[Path], notes: Sequence[Mapping[str, Any]]
    ) -> tuple[SourceFile, ...]:
        """What is stored of each input file, for engines that answer from these files
        (`flags.rereads`): as loaded (`written`) and changed since (`notes`); before the load
        nothing of any file."""
        return ()

    def left_out(self, shards: Path | None, written: Sequence[Path]) -> list[str]:
        """Input files that no loading worker stored."""
        return []

    @abstractmethod
    def verify(self, context: VerifyContext) -> list[Checked]:
        """Compare the stored documents with those that the store has acknowledged."""

    @abstractmethod
    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        """The operations of one client in one step of a phase, in order.

        Called before the step's barrier: what must be read or built first is done in this call,
        not when the first operation is asked for.

        The iterator ends when its share of the work is done; the driver also stops it at the
        phase's time limit. Errors raised by the iterator itself end the trial.
        """
