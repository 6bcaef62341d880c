"""Clients of one process: one for each thread, with what all of them know of the store."""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from storewise.documents import Kind
from storewise.engines.contract.engine import Client, Mode, Schema
from storewise.engines.support.table import Table
from storewise.errors import EngineError


@dataclass(slots=True, kw_only=True, eq=False)
class ProcessState:
    """What the clients of one process have in common."""

    mode: Mode
    kinds: tuple[Kind, ...]
    """What the workload stores (`Cluster.kinds`)."""
    tables: dict[Kind, Table] = field(default_factory=dict)
    schema: Schema | None = None
    lock: Any = field(default_factory=threading.RLock)
    clients: list[Any] = field(default_factory=list)
    """The first one's `finish` and `close` are those of the process."""


State = TypeVar("State", bound=ProcessState)


class ThreadClient(Client, Generic[State]):
    """One thread's connections; `for_thread` makes further clients of the same process."""

    engine_name: ClassVar[str]

    def __init__(self, shared: State) -> None:
        self._shared = shared
        self._closed = False
        with shared.lock:
            shared.clients.append(self)

    @abstractmethod
    def _disconnect(self) -> None:
        """Close this thread's connections."""

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

    def _writing(self, verb: str) -> State:
        """What is shared; EngineError for a client that may not write."""
        if self._shared.mode != "write":
            raise EngineError(
                f"{self.engine_name}: {verb} needs a client that is connected to write"
            )
        if self._closed:
            raise EngineError(f"{self.engine_name}: this client is closed")
        return self._shared


def step_aside(tried: int) -> None:
    """Wait before a transaction is tried again that stood in another one's way: at random and ever
    longer (to 0.2 s), or those that met would meet again."""
    time.sleep(random.uniform(0, min(0.2, 0.001 * 2**tried)))
