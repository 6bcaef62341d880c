"""The engine contract: the interface of stores and their clients.

An *engine* is a stateless description of a store (how to start its nodes, how to connect); a
*client* is one process's open connection to it. One engine is one module; `registry` maps names
to modules. Engines import no other engine, and nothing above this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from zlib import crc32

from pydantic import BaseModel, ConfigDict, ValidationError

from storewise.documents import KINDS, Document, Encoding, Kind
from storewise.engines.contract.own_text import Language, OwnText
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Scan, Top
from storewise.errors import EngineError

#: When secondary indexes are built: never, before the load, or after it.
IndexTime = Literal["none", "before", "after"]
Mode = Literal["write", "read"]


@dataclass(frozen=True, slots=True)
class Flags:
    """Features of an engine. A study that needs others is refused when it is read."""

    embedded: bool
    """Lives in the client's process: no nodes, its files are an output of the write worker."""
    stores: bool = True
    """Keeps what is inserted (the null engine does not)."""
    replicas: bool = False
    authentication: bool = False
    secondary_indexes: bool = False
    updates: bool = False
    deletes: bool = False
    scans: bool = False
    """Documents can be read in key order from a start id."""
    ranges: bool = False
    """Documents can be found by one condition on a field, in no order: `find`."""
    server_aggregation: bool = False
    count: Literal["native", "scan", "none"] = "native"
    """How the number of documents of a kind is known."""
    owner: bool = False
    """The client can tell which node (or store) holds an id."""
    finds: bool = False
    """Conditions on fields are answered by the store: `find`, `count`, `histogram`."""
    explains: bool = False
    """The store tells whether a query takes an index: `explain`."""
    external: bool = False
    """An existing database: neither embedded nor started by Storewise."""
    size_has_copies: bool = True
    """`disk_bytes` includes all replicas, not one copy of each document."""

    rereads: bool = False
    """Keeps nothing and answers from the input files (`Cluster.sources`): the baseline without a
    database."""

    @property
    def nodes(self) -> bool:
        """Its stores are servers that a session starts."""
        return not self.embedded and not self.external


class EngineSettings(BaseModel):
    """Settings of an engine in a study; each engine has its own subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables and indexes that a client creates before the load."""

    kinds: tuple[Kind, ...] = KINDS
    indexes: tuple[tuple[Kind, str], ...] = ()
    """Secondary indexes as (kind, field)."""
    index_time: IndexTime = "none"
    study_fields: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One running server, as its node published it."""

    role: str
    index: int
    host: str
    address: str
    port: int
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Further ports by name (gossip, HTTP), for servers with several ports."""

    @property
    def name(self) -> str:
        """The name of its node: ``data0``."""
        return f"{self.role}{self.index}"

    def __str__(self) -> str:
        """The form in messages: ``data0 (10.0.0.1:9042)``."""
        return f"{self.name} ({self.address}:{self.port})"


#: Which of an embedded engine's stores holds a document, by its id: index into `Cluster.stores`;
#: KeyError for an id that no store has.
Placement = Callable[[bytes], int]


def hash_placement(stores: int) -> Placement:
    """The store of an id is the CRC-32 of its bytes modulo the number of stores.

    All bytes count: by the digest alone a whole file would lie on one store, and files differ
    in size. CRC-32 is the same in every process, on every host and in every language (Python's own
    hash is not), costs a tenth of a microsecond, and spreads consecutive ordinals evenly.
    """
    return partial(_hashed_store, stores)


def _hashed_store(stores: int, document_id: bytes) -> int:
    return crc32(document_id) % stores


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An input file, for engines that answer from the files themselves."""

    path: str
    size: int
    """Bytes, as it lies on disk."""
    digest: bytes
    """All 16 bytes; ids begin with the first 7."""
    documents: tuple[int, ...]
    """Number of stored documents by `Kind.number`; these are the first ones of the file."""
    store: int
    """Index into the stores of the trial."""
    format: str = ""
    """Text of its `InputFormat`; empty where it shows."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything that a client needs to connect.

    A writing client of an embedded engine sees exactly one entry in `stores`, its own new and
    empty directory; a reading client sees the stores of all writers and `placement` tells which
    one holds an id. Server engines have `endpoints` and no stores.
    """

    engine: str
    stores: tuple[Path, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    consistency: str = ""
    network_file_system: bool = False
    """True where `stores` lie on NFS, Lustre or the like: engines must not use WAL files with
    shared memory there."""
    credentials: Path | None = None
    placement: Placement | None = None
    kinds: tuple[Kind, ...] = KINDS
    """The kinds of documents that the workload stores."""
    sources: tuple[SourceFile, ...] = ()
    """Input files, for engines with `flags.rereads`: for a reading client all stored ones, for a
    writing one those of its store, stored or still to come."""


class Client(ABC):
    """A client of a store.

    `Engine.connect` makes one per process. In each step of a phase each thread calls `open_thread`,
    uses only the client that it returns, and calls `close_thread` of that client at the end.

    EngineError is raised for unsupported operations and for every failure: never a driver's own
    exception type.
    """

    def check_connection(self) -> None:  # noqa: B027 - most embedded stores have nothing to ask
        """Send the store a first request; EngineError if it does not answer."""

    def connected(self) -> Self:
        """Call `check_connection` and return this client; close it after an error. For
        `Engine.connect`."""
        try:
            self.check_connection()
        except EngineError:
            self.close()
            raise
        return self

    def open_thread(self) -> Client:
        """The client for the calling thread: this one if threads may share it. Its connections are
        open and signed in when this returns, so that no operation includes that time."""
        return self

    def close_thread(self) -> None:  # noqa: B027 - what threads share stays open
        """Close what `open_thread` has opened for this thread; the process's connection stays."""

    @abstractmethod
    def create(self, schema: Schema) -> None:
        """Create tables or collections (and indexes, where `schema.index_time` is "before");
        existing ones are kept. EngineError if they have another schema.

        Embedded engines: called in each writing process. Servers: called once in a trial, before
        any client connects to load; a client that connects later finds what is there.
        """

    @abstractmethod
    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """Insert a batch of one kind, in the engine's `encoding` or as dicts, which every engine
        takes; acknowledged when it returns.

        In the encoding "arrow" the batch is one `pyarrow.RecordBatch`. It has a column for each
        field of the table, in their order, and of a kind with open fields the others as a JSON
        object in ``params``; with other columns it is an EngineError, as dicts with other fields
        are.

        An id that exists already is overwritten, so that a retried shard never doubles.
        """

    def flush(self) -> None:  # noqa: B027 - most engines have nothing to do here
        """Called by each client thread at the end of its load: when it returns, the store has
        received everything that this thread has sent (buffers, unacknowledged writes)."""

    def finish(self) -> None:  # noqa: B027 - most engines have nothing to do here
        """End of the load: close files, build indexes of time "after".

        Embedded engines: called once in each writing process, of its own store. Servers: called
        once in a trial, by one process, after all clients of all workers have flushed.
        """

    @abstractmethod
    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        """The document with this id as a dict (ids as 12 bytes), None where there is none; so for
        an id that no document of the kind can have, such as one of another length."""

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        """The documents of several ids, in their order, None for each that is missing."""
        return [self.get(kind, document_id) for document_id in document_ids]

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool | None:
        """Set fields of a document, of those that its kind names. Returns True if it exists, False
        if not.

        Returns None if the store does not report this (one request without a read): then an update
        of a missing document may create one. Verification notices it, as it counts documents.
        """
        raise self._cannot("update")

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """Delete a document; False where there was none."""
        raise self._cannot("delete")

    def scan(self, query: Scan) -> list[Document]:
        """Documents in the order of ids, over all stores (`flags.scans`)."""
        raise self._cannot("scan")

    def every(self, kind: Kind, page: int = 2000) -> Iterator[Document]:
        """Every document of a kind in the order of ids, by scans of `page` documents: all of them
        cross the network."""
        after = None
        while documents := self.scan(Scan(kind, b"", page, after)):
            yield from documents
            if len(documents) < page:
                return
            after = documents[-1]["_id"]

    def find(self, query: Find) -> list[Document]:
        """The documents that fulfil conditions. With `flags.finds` the store evaluates all
        conditions, with `flags.ranges` one; otherwise the client reads and filters all documents.
        """
        return query.answer(self.every(query.kind))

    def count(self, query: Count) -> int:
        """The number of documents that fulfil conditions (`flags.finds`); without conditions the
        number of all documents of a kind, if `flags.count` is not "none"."""
        return query.answer(self.every(query.kind))

    def top(self, query: Top) -> list[tuple[Any, int]]:
        """The most frequent values of a field (`flags.server_aggregation`: by the store)."""
        return query.answer(self.every(query.kind))

    def histogram(self, query: Histogram) -> dict[int, int]:
        """Documents per bin of a number (`flags.finds`: by the store)."""
        return query.answer(self.every(query.kind))

    def ask(self, question: OwnText) -> list[tuple[Any, ...]]:
        """The rows of a question in the store's own language (`Engine.language`)."""
        raise self._cannot("ask")

    def explain(self, query: Find | Count) -> Plan:
        """How the store would answer a query, with its values (`flags.explains`); of several nodes
        the first."""
        raise self._cannot("explain")

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node or store that holds an id, None where the engine cannot tell."""
        return None

    @abstractmethod
    def disk_bytes(self) -> int | None:
        """Bytes of the documents and their indexes; of an embedded store, of all its files (holes
        not counted). None if a client cannot measure this: then each node measures its directory at
        its end. Called after the load and at the end of the trial; the store may flush for it."""

    @abstractmethod
    def close(self) -> None:
        """Close this process's connection; a second call does nothing."""

    def _cannot(self, verb: str) -> EngineError:
        return EngineError(f"{type(self).__name__} has no {verb}: its flags say so")


class Engine(ABC):
    """The description of a store."""

    name: ClassVar[str]
    title: ClassVar[str]
    """The name people know, for figures and tables."""
    titles: ClassVar[tuple[str, ...]] = ()
    """Products that its server may be (MariaDB, MySQL), as its version begins; default: `title`.
    """
    flags: ClassVar[Flags]
    data_roles: ClassVar[tuple[str, ...]] = ("data",)
    """Roles of servers that hold the documents; the first of them that a cluster has."""
    in_first_study: ClassVar[bool] = False
    """Part of the study that `storewise init` writes, where the store runs."""
    language: ClassVar[Language | None] = None
    """The language of questions that `Client.ask` takes."""
    asks_one_store: ClassVar[bool] = False
    """Whether `Client.ask` reaches only one of several stores or servers."""
    encoding: ClassVar[Encoding] = "dict"
    """The form in which `Client.insert` takes documents at the least cost."""
    consistencies: ClassVar[Mapping[str, str]]
    """Consistency levels and what each means here; the first is the default."""
    slow_levels: ClassVar[Mapping[str, float]] = {}
    """Levels at which the store waits for its disk after each document -> documents per second on
    a slow disk, for the warning before a run."""
    lossy_levels: ClassVar[frozenset[str]] = frozenset({"relaxed"})
    """The levels at which a lost document is a measurement, not a failed trial."""
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "durable", "weak": "relaxed"}
    """The level of this engine by each alias that all engines share (`docs/consistency.md`)."""
    Settings: ClassVar[type[EngineSettings]] = EngineSettings
    packages: ClassVar[tuple[str, ...]] = ("storewise",)
    """Python packages of the client library, and of the engine where it is embedded."""

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Versions of `packages`, or of the packages that clients with these settings use. The
        server's version comes from its `Installation`."""
        return {name: version(name) for name in self.packages}

    def settings_of(self, settings: Mapping[str, Any]) -> Any:
        """Settings of a study as `Settings`; EngineError that names a wrong key."""
        try:
            return self.Settings.model_validate(dict(settings))
        except ValidationError as error:
            first = error.errors()[0]
            wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            known = ", ".join(self.Settings.model_fields) or "none"
            raise EngineError(f"settings of {self.name}: {wrong} (known: {known})") from error

    def level_of(self, cluster: Cluster) -> str:
        """The consistency level of a cluster; default: the engine's first level."""
        return cluster.consistency or next(iter(self.consistencies))

    def stores_of(self, cluster: Cluster, mode: Mode) -> tuple[Path, ...]:
        """The store directories of a cluster; a writer's directory is created. EngineError if that
        fails, or if a directory is missing."""
        try:
            if mode == "write":
                cluster.stores[0].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(f"{self.name}: cannot make the store directory: {error}") from error
        if missing := [directory for directory in cluster.stores if not directory.is_dir()]:
            raise EngineError(f"{self.name}: {missing[0]} is not a directory")
        return cluster.stores

    def check_schema(self, settings: Mapping[str, Any], schema: Schema) -> None:  # noqa: B027
        """Raise EngineError for settings that do not fit the trial's schema."""

    def remove(self, cluster: Cluster) -> None:  # noqa: B027
        """Remove data of an embedded engine outside its store directories, which are removed with
        the trial."""

    def title_of(self, version: str) -> str:
        """The store's name for users (MariaDB or MySQL), by the version its server reports."""
        return next((name for name in self.titles if version.startswith(name)), self.title)

    def level(self, word: str) -> str:
        """The consistency level for a study's value: a level, or the alias `strong` or `weak`."""
        return self.consistency_aliases.get(word, word)

    def directories(self, settings: Mapping[str, Any], own: Path) -> tuple[Path, ...] | None:
        """The directories whose files a quota counts: `own` (of the loading worker or node), unless
        the settings name another place. None if they cannot be counted: in S3, in HDFS, or if
        several nodes share a directory."""
        return (own,)

    @abstractmethod
    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """Open one process's connection; raises EngineError with the store's own words."""


class ExternalEngine(Engine):
    """An engine for an external database, which somebody else runs. A trial makes its own tables,
    with a prefix that no other trial has, and drops them at its end."""

    @abstractmethod
    def of_trial(self, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The settings of a trial's clients, with a table prefix that is unique to the trial."""

    @abstractmethod
    def drop(self, cluster: Cluster) -> None:
        """Drop all tables of the trial; EngineError if that fails."""

    @abstractmethod
    def server(self, cluster: Cluster) -> dict[str, str]:
        """The server's product and version, for the conditions of results; no secrets."""
