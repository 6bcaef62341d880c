"""Connections to the servers of a cluster: a client of valkey-py for each, and its errors.

Driver: https://valkey-py.readthedocs.io/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from valkey import Valkey
from valkey.exceptions import ValkeyError

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

#: Time-outs for a connection and for an answer, s.
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
#: What to do where a server's memory is full.
_IF_FULL = (
    "; give the nodes more memory (factor `node_memory_mb`), take more nodes, or store fewer "
    "documents"
)


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

    def close(self) -> None:
        self._threads.shutdown()
        for server in self.servers:
            server.close()

    def open(self) -> None:
        """Connect to all servers and sign in."""
        for server in range(len(self.servers)):
            self.ask(server, Valkey.ping)

    def ask(self, server: int, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Send a request, a method of Valkey or a function, to one server (by number); returns its
        answer."""
        try:
            return request(self.servers[server], *arguments, **options)
        except (ValkeyError, UnicodeEncodeError) as error:
            advice = _IF_FULL if "used memory > 'maxmemory'" in str(error) else ""
            raise EngineError(f"valkey: {self.endpoints[server]}: {error}{advice}") from error

    def ask_all(self, servers: Iterable[int], request: Callable[[Any, int], Any]) -> list[Any]:
        """Send requests to several servers in parallel; returns their answers in order. Waits for
        all, then raises the EngineError of the first that failed."""
        numbers = list(servers)
        if len(numbers) < 2:
            return [self.ask(server, request, server) for server in numbers]
        answers = [self._threads.submit(self.ask, n, request, n) for n in numbers]
        wait(answers)
        return [answer.result() for answer in answers]
