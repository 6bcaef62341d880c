"""Clients of one process, with what all of them know of the store."""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from storewise.documents import Kind
from storewise.engines.contract.engine import Client, Mode, Schema
from storewise.errors import EngineError

Form = TypeVar("Form")
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class ProcessState(Generic[Form]):
    """What the clients of one process have in common."""

    mode: Mode
    kinds: tuple[Kind, ...]
    """What the workload stores (`Cluster.kinds`)."""
    tables: dict[Kind, Form] = field(default_factory=dict)
    """How the store keeps each kind, as far as it is known."""
    schema: Schema | None = None
    lock: Any = field(default_factory=threading.RLock)
    clients: list[Any] = field(default_factory=list)
    """Of `ThreadClient`: the first one's `finish` and `close` are those of the process."""
    closed: bool = False


State = TypeVar("State", bound=ProcessState[Any])


class ProcessClient(Client, Generic[State, Form]):
    """A client of a process; what it knows of the store is known to all of them."""

    engine_name: ClassVar[str]

    def __init__(self, shared: State) -> None:
        self._shared = shared

    def _learn(self) -> None:
        """Take the tables that another client has created."""

    def _table(self, kind: Kind) -> Form:
        """How a kind is kept; EngineError where nobody has created it."""
        if kind not in self._shared.tables:
            self._learn()
        if kind not in self._shared.tables:
            raise EngineError(f"{self.engine_name}: {kind.table} was never created")
        table: Form = self._shared.tables[kind]
        return table

    def _is_closed(self) -> bool:
        return self._shared.closed

    def _check_open(self) -> None:
        if self._is_closed():
            raise EngineError(f"{self.engine_name}: this client is closed")

    def _writing(self, verb: str) -> State:
        """What is shared; EngineError for a client that may not write."""
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
        """Open this thread's connections and log in."""

    def __init__(self, shared: State) -> None:
        super().__init__(shared)
        self._closed = False
        with shared.lock:
            shared.clients.append(self)

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

    def _is_closed(self) -> bool:
        return self._closed

    def _writing(self, verb: str) -> State:
        if self._closed or self._shared.mode != "write":
            return super()._writing(verb)  # raises it
        return self._shared


def retried(do: Callable[[], _Result], undone: Callable[[Exception], bool], tries: int) -> _Result:
    """Do a transaction, again where the store has undone it for the sake of another one.

    Between tries it waits at random and ever longer (to 0.2 s), or those that met would meet again.
    """
    for tried in range(tries - 1):
        try:
            return do()
        except Exception as error:
            if not undone(error):
                raise
        time.sleep(random.uniform(0, min(0.2, 0.001 * 2**tried)))
    return do()
