"""Connections to the servers of a cluster: a client of valkey-py for each, and its errors.

Driver: https://valkey-py.readthedocs.io/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar

from valkey import Valkey
from valkey.exceptions import AuthenticationError, TimeoutError, ValkeyError
from valkey.exceptions import ConnectionError as ConnectionLost

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

#: Time-out for connecting and for the answer to a first request, s.
_CONNECT_SECONDS = 10.0

_Result = TypeVar("_Result")


class Unavailable(EngineError):
    """A server is unavailable: a time-out, no connection, or it is still loading its data."""


class Connections:
    """One thread's driver clients, one for each server. Each connects at its first request, and
    again after its connection was lost."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        user: str,
        password: str,
        answer_seconds: float | None = None,
    ) -> None:
        self.endpoints = endpoints
        self._threads: ThreadPoolExecutor | None = None
        """For the work with all servers but one; started when it is first needed."""
        self.servers: list[Any] = [
            Valkey(
                host=endpoint.address,
                port=endpoint.port,
                username=user,
                password=password,
                socket_timeout=answer_seconds or _CONNECT_SECONDS,
                socket_connect_timeout=_CONNECT_SECONDS,
            )
            for endpoint in endpoints
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for server in self.servers:
            server.close()

    def open(self) -> None:
        """Connect to all servers and log in."""
        self.ask_all(range(len(self.servers)), lambda server, valkey: valkey.ping())

    def ask(self, server: int, request: Callable[[Any], _Result]) -> _Result:
        """Send a request to one server (by number); returns its answer."""
        try:
            return request(self.servers[server])
        except ValkeyError as error:
            raise self._translated(server, error) from error

    def ask_all(
        self, servers: Iterable[int], request: Callable[[int, Any], _Result]
    ) -> list[_Result]:
        """Send requests to several servers in parallel; returns their answers in order. Waits for
        all, then raises the EngineError of the first that failed."""

        def ask(server: int) -> _Result:
            return self.ask(server, lambda valkey: request(server, valkey))

        numbers = list(servers)
        if len(numbers) < 2:
            return [ask(server) for server in numbers]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self.servers) - 1, "storewise-server")
        answers = [self._threads.submit(ask, server) for server in numbers[1:]]
        try:
            return [ask(numbers[0]), *(answer.result() for answer in answers)]
        finally:
            wait(answers)

    def _translated(self, server: int, error: ValkeyError) -> EngineError:
        where, message = f"valkey: {self.endpoints[server]}", str(error)
        if isinstance(error, AuthenticationError):
            return EngineError(
                f"{where}: the user or password of this session is refused ({message})"
            )
        if isinstance(error, TimeoutError):
            return Unavailable(
                f"{where}: {message}: the server, its host or the network stands still "
                "(`timeout_seconds`)"
            )
        if isinstance(error, ConnectionLost):
            return Unavailable(f"{where}: {message}")
        if "used memory > 'maxmemory'" in message:
            return EngineError(
                f"{where}: its memory is full ({message}); give the nodes more (factor "
                "`node_memory_mb`, setting `memory_share`), take more nodes, or store fewer "
                "documents"
            )
        return EngineError(f"{where}: {message}")
