"""Connections to a server that stands alone, past its driver: one message each way.

Drivers choose a server, pass requests through threads or pools of their own, and make sessions and
cursors: several times the work of a single read. A server that stands alone leaves nothing to
choose, so a blocking socket of the asking thread does. What is in the messages is a subclass's.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from storewise.engines.contract.engine import Endpoint

_READ = 1 << 16
#: Of a connection that has rested so long (s) is asked first whether the server has closed it.
_RESTED = 1.0


class DirectConnection(ABC):
    """A connection to one server; for one thread at a time.

    It is closed where it is lost, and where no answer comes in time. `name` is for messages, and
    `connect` bounds the wait for the connection (s).
    """

    def __init__(self, server: Endpoint, name: str, connect: float) -> None:
        self._name = name
        self._used = time.monotonic()
        try:
            self._socket = socket.create_connection((server.address, server.port), connect)
        except OSError as error:
            raise self._lost(f"{name}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket.settimeout(None)
        self._wait_up_to(connect)

    @staticmethod
    @abstractmethod
    def _lost(words: str) -> Exception:
        """The error of a connection that is lost; the server may be there again, or soon be."""

    @staticmethod
    @abstractmethod
    def _late(name: str) -> Exception:
        """The error of an answer that has not come in time."""

    @staticmethod
    @abstractmethod
    def _size(data: bytes) -> int:
        """Bytes of the message that begins like this; more than there are where it cannot be seen
        yet."""

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def ended(self) -> bool:
        """Whether the server has closed it while it rested."""
        if time.monotonic() - self._used < _RESTED:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _exchange(self, message: bytes) -> bytes:
        """Send one message; the one that answers it."""
        try:
            self._socket.sendall(message)
            data = self._socket.recv(_READ)
            # One packet has nearly always all.
            while len(data) < self._size(data):
                more = self._socket.recv(_READ)
                if not more:
                    raise ConnectionResetError("the server has closed the connection")
                data += more
        except BlockingIOError as error:
            self.close()
            raise self._late(self._name) from error
        except OSError as error:
            self.close()
            raise self._lost(f"{self._name}: {error}") from error
        except BaseException:
            self.close()  # else the next message would get this one's answer
            raise
        self._used = time.monotonic()
        return data

    def _wait_up_to(self, seconds: float) -> None:
        """The kernel bounds each wait: Python would ask for one more system call each time."""
        whole = int(seconds)
        limit = struct.pack("ll", whole, int((seconds - whole) * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


_Connection = TypeVar("_Connection", bound=DirectConnection)


class DirectPool(Generic[_Connection]):
    """The connections of a process: a thread takes one for one request, and gives it back.

    `connect` makes a connection, or raises one of `failures`: then, and where there is no
    `connect`, the pool has none to give, and the driver has to do it.
    """

    def __init__(
        self,
        connect: Callable[[], _Connection] | None,
        failures: tuple[type[Exception], ...],
    ) -> None:
        self.connect = connect
        self._failures = failures
        self.resting: list[_Connection] = []
        """Connections that no thread uses at the moment."""
        self._held = threading.local()

    @property
    def usable(self) -> bool:
        """Whether there are connections past the driver at all."""
        return self.connect is not None

    def take(self) -> _Connection | None:
        """A connection for one request; None where there is none."""
        if self.connect is None:
            return None
        held: _Connection | None = getattr(self._held, "connection", None)
        self._held.connection = None
        try:
            connection = held or self.resting.pop()
        except IndexError:
            pass
        else:
            if not connection.ended():
                return connection
            connection.close()
            # The server has ended, perhaps begun again: so have the others.
            self.drop()
        try:
            return self.connect()
        except self._failures:
            return None

    def hold(self) -> None:
        """Keep a connection for the calling thread's first request: it is open before that, and no
        other thread that does the same gets it."""
        self._held.connection = self.take()

    def give(self, connection: _Connection) -> None:
        """Back, for the next one."""
        if self.connect is None:
            connection.close()
        elif connection.open:
            self.resting.append(connection)

    def drop(self) -> None:
        """Close what rests: the server has ended."""
        while self.resting:
            self.resting.pop().close()

    def close(self) -> None:
        """No connection is given any more."""
        self.connect = None
        self.drop()
