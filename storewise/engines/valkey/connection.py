"""Connections to the servers of a cluster: a client of valkey-py for each, words of errors.

Driver: https://valkey-py.readthedocs.io/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from valkey import Valkey
from valkey.exceptions import AuthenticationError, BusyLoadingError, ResponseError, ValkeyError
from valkey.exceptions import ConnectionError as Lost
from valkey.exceptions import TimeoutError as Silence

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

#: Time-out for connecting and for the first answer, s.
_CONNECT_SECONDS = 10.0

_Result = TypeVar("_Result")


class Unreached(EngineError):
    """A server is unavailable: a time-out, no connection, or it is still loading its data."""


class Refused(EngineError):
    """A server has answered a request with an error."""


class Links:
    """One thread's driver clients, one for each server. Each connects at its first request, and
    again after its connection was lost."""

    def __init__(
        self, endpoints: Sequence[Endpoint], user: str, password: str, seconds: float
    ) -> None:
        self._endpoints = endpoints
        self._threads: ThreadPoolExecutor | None = None
        """For the work with all servers but one; started when it is first needed."""

        def client(endpoint: Endpoint, seconds: float) -> Any:
            return Valkey(
                host=endpoint.address,
                port=endpoint.port,
                username=user,
                password=password,
                socket_timeout=seconds,
                socket_connect_timeout=_CONNECT_SECONDS,
            )

        self._client = client
        self.servers = [client(endpoint, seconds) for endpoint in endpoints]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for server in self.servers:
            server.close()

    def check_connection(self) -> None:
        """Ping each server; EngineError if one does not answer within `_CONNECT_SECONDS`, which may
        be shorter than the time-out of later requests."""
        for number, endpoint in enumerate(self._endpoints):
            first = self._client(endpoint, _CONNECT_SECONDS)
            try:
                with self.words(number):
                    first.ping()
            finally:
                first.close()

    def open(self) -> None:
        """Connect to all servers and log in."""
        self.ask_all(range(len(self.servers)), lambda server, client: client.ping())

    def ask(self, server: int, question: Callable[[Any], _Result]) -> _Result:
        """Send a request to one server (by number); returns its answer."""
        try:
            return question(self.servers[server])
        except ValkeyError as error:
            raise self.failure(server, error) from error

    def ask_all(
        self, servers: Iterable[int], question: Callable[[int, Any], _Result]
    ) -> list[_Result]:
        """Send requests to several servers in parallel; returns their answers in order. Waits for
        all, then raises the EngineError of the first that failed."""
        numbers = list(servers)

        def one(server: int) -> _Result:
            return self.ask(server, lambda client: question(server, client))

        if len(numbers) < 2:
            return [one(server) for server in numbers]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self.servers) - 1, "storewise-server")
        others = [self._threads.submit(one, server) for server in numbers[1:]]
        try:
            first = one(numbers[0])
        finally:
            wait(others)
        return [first, *(future.result() for future in others)]

    @contextmanager
    def words(self, server: int) -> Any:
        """Turn the driver's errors into EngineError with the server's name."""
        try:
            yield
        except ValkeyError as error:
            raise self.failure(server, error) from error

    def failure(self, server: int, error: ValkeyError) -> EngineError:
        return _kind(error)(f"valkey: {self._endpoints[server]}: {_words(error)}")


def _kind(error: ValkeyError) -> type[EngineError]:
    if isinstance(error, AuthenticationError):
        return EngineError
    if isinstance(error, BusyLoadingError | Silence | Lost):
        return Unreached
    return Refused if isinstance(error, ResponseError) else EngineError


def _words(error: ValkeyError) -> str:
    if isinstance(error, AuthenticationError):
        return f"the user or password of this session is refused ({error})"
    words = str(error)
    if isinstance(error, Silence):
        return f"{words}: the server, its host or the network stands still (`timeout_seconds`)"
    if "used memory > 'maxmemory'" in words:
        return (
            f"its memory is full ({words}); give the nodes more (factor `node_memory_mb`, setting "
            "`memory_share`), take more nodes, or store fewer documents"
        )
    return words
