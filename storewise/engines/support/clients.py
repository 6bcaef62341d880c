"""Base classes of clients, with the state that all clients of a process share."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from storewise.documents import Kind
from storewise.engines.contract.engine import Client, Mode, Schema
from storewise.engines.support.table import describe, described
from storewise.errors import EngineError

Form = TypeVar("Form")


@dataclass(slots=True, kw_only=True, eq=False)
class ProcessState(Generic[Form]):
    """The shared state of all clients of one process."""

    mode: Mode
    kinds: tuple[Kind, ...]
    """The kinds of documents of the workload (`Cluster.kinds`)."""
    tables: dict[Kind, Form] = field(default_factory=dict)
    """The table (or its equivalent) of each kind, as far as known."""
    schema: Schema | None = None
    lock: Any = field(default_factory=threading.RLock)
    clients: list[Any] = field(default_factory=list)
    """All `ThreadClient`s; `finish` and `close` of the first one act for the whole process."""


State = TypeVar("State", bound=ProcessState[Any])


class ProcessClient(Client, Generic[State, Form]):
    """A client that shares its state with all clients of the process."""

    engine_name: ClassVar[str]
    failures: tuple[type[Exception], ...] = ()
    """Exceptions of the driver, and of Python for values that it cannot send."""

    def __init__(self, shared: State) -> None:
        self._shared = shared
        self._closed = False

    # Errors.

    def _error_message(self, error: Exception) -> str:
        """The error's message on one line."""
        return " ".join(str(error).split()) or type(error).__name__

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Translate the driver's errors to EngineError; `what` names the operation."""
        try:
            yield
        except self.failures as error:
            message = f"{self.engine_name}: {what}: {self._error_message(error)}"
            raise EngineError(message) from error

    # The schema. `create` leaves a note of it in the store, for clients that connect later.

    def _read_note(self) -> str | None:
        """The schema note in the store; None before `create`."""
        return None

    def _new_note(self, schema: Schema) -> str:
        """The note for a schema; EngineError if the store has the note of another schema."""
        note, there = describe(schema), self._read_note()
        if there is not None and there != note:
            raise EngineError(
                f"{self.engine_name}: the store has tables of another schema: {there}; expected "
                f"{note}"
            )
        return note

    def _make_tables(self, schema: Schema) -> dict[Kind, Form]:
        """The tables of a schema (or what the store has instead), for stores that keep a note;
        EngineError for an index on a missing field."""
        raise NotImplementedError

    def _use_schema(self, schema: Schema) -> None:
        tables = self._make_tables(schema)
        with self._shared.lock:
            self._shared.schema, self._shared.tables = schema, tables

    def _learn(self) -> None:
        """Read the schema note and use the tables that another client has created."""
        if (note := self._read_note()) is not None:
            self._use_schema(described(note, self._shared.kinds))

    def _make_indexes(self, schema: Schema) -> None:
        """Make the secondary indexes of a schema; existing ones are kept."""

    def finish(self) -> None:
        """End the load: every insert was acknowledged, so only indexes may be missing."""
        shared = self._writing("finish")
        if shared.schema is None:
            self._learn()
        if shared.schema is not None and shared.schema.index_time == "after":
            self._make_indexes(shared.schema)

    def _table(self, kind: Kind) -> Form:
        """The table of a kind (or what the store has instead); EngineError if this client is closed
        or the table was never created."""
        table: Form | None = self._shared.tables.get(kind)
        if table is None or self._closed:
            self._check_open()
            self._learn()
            table = self._shared.tables.get(kind)
        if table is None:
            raise EngineError(f"{self.engine_name}: {kind.table} was never created")
        return table

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(f"{self.engine_name}: this client is closed")

    def _writing(self, verb: str) -> State:
        """The connection of the process, for the write `verb`; EngineError if this client is closed
        or was connected only to read."""
        if self._shared.mode != "write":
            raise EngineError(
                f"{self.engine_name}: {verb} needs a client that is connected to write"
            )
        self._check_open()
        return self._shared


class ThreadClient(ProcessClient[State, Form]):
    """A client that belongs to one thread and has connections of its own; `open_thread` makes
    another one for each further thread."""

    @abstractmethod
    def _connect(self) -> None:
        """Open this thread's connections and sign in."""

    def __init__(self, shared: State) -> None:
        super().__init__(shared)
        with shared.lock:
            shared.clients.append(self)

    def check_connection(self) -> None:
        self._connect()

    @abstractmethod
    def _disconnect(self) -> None:
        """Close this thread's connections."""

    def open_thread(self) -> Self:
        """Make a client with its own connections. Call `finish` and `close` on the first client."""
        client = self._unconnected_client()
        try:
            client._connect()
        except BaseException:
            client.close_thread()
            raise
        return client

    def _unconnected_client(self) -> Self:
        """Make a further client of the same process without opening connections."""
        return type(self)(self._shared)

    def close_thread(self) -> None:
        shared = self._shared
        with shared.lock:
            if shared.clients[0] is not self:
                self.close()
                if self in shared.clients:
                    shared.clients.remove(self)

    def close(self) -> None:
        """Close this client; the first one of a process closes all."""
        if self._closed:
            return
        shared = self._shared
        with shared.lock:
            first = shared.clients[0] is self
            # A file stays locked as long as any connection lives: the first client goes last.
            for client in reversed(shared.clients) if first else [self]:
                if not client._closed:
                    client._closed = True
                    client._disconnect()
