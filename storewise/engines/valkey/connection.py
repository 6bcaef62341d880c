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

#: Time-outs for a connection and for an answer, s.
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0

_Result = TypeVar("_Result")


class Unavailable(EngineError):
    """A server is unavailable: a time-out, no connection, or it is still loading its data."""


class Connections:
    """One thread's driver clients, one for each server. Each connects at its first request, and
    again after its connection was lost."""

    def __init__(self, endpoints: Sequence[Endpoint], user: str, password: str) -> None:
        self.endpoints = endpoints
        # It starts its threads when they are first needed.
        self._threads = ThreadPoolExecutor(len(endpoints), "storewise-server")
        self.servers: list[Any] = [
            Valkey(
                host=endpoint.address,
                port=endpoint.port,
                username=user,
                password=password,
                socket_timeout=_ANSWER_SECONDS,
                socket_connect_timeout=_CONNECT_SECONDS,
            )
            for endpoint in endpoints
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._threads.shutdown()
        for server in self.servers:
            server.close()

    def open(self) -> None:
        """Connect to all servers and sign in."""
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
        answers = [self._threads.submit(ask, server) for server in numbers]
        wait(answers)
        return [answer.result() for answer in answers]

    def _translated(self, server: int, error: ValkeyError) -> EngineError:
        message, kind = str(error), EngineError
        if isinstance(error, AuthenticationError):
            message = f"the user or password of this session is refused ({message})"
        elif isinstance(error, TimeoutError | ConnectionLost):
            kind = Unavailable
        elif "used memory > 'maxmemory'" in message:
            message = (
                f"its memory is full ({message}); give the nodes more (factor `node_memory_mb`, "
                "setting `memory_share`), take more nodes, or store fewer documents"
            )
        return kind(f"valkey: {self.endpoints[server]}: {message}")
