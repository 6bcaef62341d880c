"""A client thread's connections to a Riak cluster: batches over several, other nodes for failed
ones."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from storewise.documents import Kind
from storewise.engines.contract.engine import Endpoint
from storewise.engines.riak import protocol as pb
from storewise.engines.riak.protocol import Broken, Connection, GaveUp
from storewise.engines.riak.settings import Quorums, RiakSettings
from storewise.engines.support.clients import ProcessState
from storewise.engines.support.table import Table
from storewise.errors import EngineError

_CONNECT_SECONDS = 5.0
_GREET_SECONDS = 10.0
#: Requests that are sent at once on a connection.
_WINDOW = 32


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    """What the clients of one process have in common."""

    settings: RiakSettings
    quorums: Quorums
    endpoints: tuple[Endpoint, ...]
    ring_size: int
    decoders: dict[Kind, Any] = field(default_factory=dict)
    """Of `tables`; each is made once."""
    owners: dict[int, str] = field(default_factory=dict)
    """Nodes by number of partition, as far as they were asked for."""
    links: list[Link] = field(default_factory=list)
    _turn: Iterator[int] = field(default_factory=itertools.count)

    def link(self) -> Link:
        """New connections for one thread; threads begin with different nodes."""
        with self.lock:
            if self.closed:
                raise EngineError("riak: this client is closed")
            made = Link(self, next(self._turn))
            self.links.append(made)
            return made

    def drop(self, link: Link) -> None:
        """Close the connections of a thread. Those of the first link stay open for the process."""
        with self.lock:
            if link in self.links[1:]:
                self.links.remove(link)
                link.close()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for link in self.links:
                link.close()


class Link:
    """The connections of one thread.

    A request whose connection breaks is sent once more on a new one, then to each other node:
    all that Storewise asks may be done twice. EngineError, with every node's words, where none
    does it. Where a server says that it gave up, the next one is asked, once: what was with another
    node when that died is never answered. A refusal, a time-out of the client's own and bytes that
    make no sense are not tried again.
    """

    def __init__(self, shared: Shared, start: int) -> None:
        self._shared = shared
        self._start = start
        self._open: dict[int, Connection] = {}
        self._at: dict[int, int] = {}

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def open(self) -> None:
        """Open the connections over which batches are sent."""
        with self._words("connect"):
            for slot in range(self._shared.settings.connections):
                self._connection(slot)

    def check_connection(self) -> None:
        """Ping the nodes until one answers; EngineError if none does."""

        seconds = self._shared.settings.timeout_seconds
        with self._words("connect"):
            problems = []
            for _ in self._shared.endpoints:
                try:
                    connection = self._connection(0)
                    connection.seconds = min(_GREET_SECONDS, seconds)
                    connection.request(pb.frame(pb.PING), pb.PONG)
                    connection.seconds = seconds
                    return
                except EngineError as error:
                    problems.append(str(error))
                    self._leave(0)
            raise EngineError("; ".join(problems))

    def request(self, verb: str, request: bytes, answer: int) -> bytes:
        """Send one request; returns the body of its response."""
        with self._words(verb):
            return self._ask(0, request, answer)

    def request_all(
        self,
        verb: str,
        requests: Sequence[bytes],
        answer: int,
        answered: Callable[[int], None] | None = None,
    ) -> list[bytes]:
        """Send requests over several connections; returns the bodies of their responses in order.
        `answered` is called with 1 after each response."""
        if len(requests) <= 1:
            return [self.request(verb, request, answer) for request in requests]
        with self._words(verb):
            return self._pipeline(requests, answer, answered)

    def _pipeline(
        self,
        requests: Sequence[bytes],
        answer: int,
        answered: Callable[[int], None] | None = None,
    ) -> list[bytes]:
        """Divide the requests among the connections and pipeline them, at most two windows each.

        A node answers the requests of a connection in order. With more requests at once both sides
        could block, each waiting for the other to read.
        """
        bodies: list[bytes] = [b""] * len(requests)
        slots = range(min(self._shared.settings.connections, len(requests)))
        waiting = {slot: deque(range(slot, len(requests), len(slots))) for slot in slots}
        sent: dict[int, deque[int]] = {slot: deque() for slot in slots}

        def send(slot: int) -> None:
            window = [waiting[slot].popleft() for _ in range(min(_WINDOW, len(waiting[slot])))]
            if window:
                sent[slot].extend(window)
                self._connection(slot).send(b"".join([requests[number] for number in window]))

        def receive(slot: int) -> None:
            connection, numbers = self._open[slot], sent[slot]
            stay = _WINDOW if waiting[slot] else 0
            while len(numbers) > stay:
                bodies[numbers[0]] = connection.receive(answer)
                numbers.popleft()
                if answered is not None:
                    answered(1)

        try:
            while any(waiting.values()) or any(sent.values()):
                for step in (send, receive):
                    for slot in slots:
                        try:
                            step(slot)
                        except (Broken, GaveUp) as error:
                            self._resend(slot, sent[slot], requests, answer, bodies, error)
        except BaseException:
            # Responses still to come would be read as those to later requests.
            for slot in slots:
                if sent[slot]:
                    self._forget(slot)
            raise
        return bodies

    def _resend(
        self,
        slot: int,
        numbers: deque[int],
        requests: Sequence[bytes],
        answer: int,
        bodies: list[bytes],
        error: Broken | GaveUp,
    ) -> None:
        """Resend one by one the requests without a response, after a connection was lost or a node
        gave up."""
        if isinstance(error, GaveUp):
            number = numbers.popleft()
            bodies[number] = self._retry(slot, requests[number], answer, error)
        while numbers:
            bodies[numbers[0]] = self._ask(slot, requests[numbers[0]], answer)
            numbers.popleft()

    def _ask(self, slot: int, request: bytes, answer: int) -> bytes:
        try:
            return self._ask_each(slot, request, answer)
        except GaveUp as error:
            return self._retry(slot, request, answer, error)

    def _retry(self, slot: int, request: bytes, answer: int, first: GaveUp) -> bytes:
        """Send a request again, to the next node first, after a node gave up."""
        self._leave(slot)
        try:
            return self._ask_each(slot, request, answer)
        except EngineError as error:
            raise EngineError(f"{first}; {error}") from error

    def _ask_each(self, slot: int, request: bytes, answer: int) -> bytes:
        problems: list[str] = []
        used = slot in self._open
        for attempt in range(len(self._shared.endpoints) + (1 if used else 0)):
            try:
                return self._connection(slot).request(request, answer)
            except Broken as error:
                problems.append(str(error))
                if used and attempt == 0:
                    # The node may have been started again since.
                    self._forget(slot)
                else:
                    self._leave(slot)
            except BaseException:
                if slot in self._open and self._open[slot].fileno() < 0:
                    self._forget(slot)
                raise
        raise Broken("; ".join(dict.fromkeys(problems)))

    def _connection(self, slot: int) -> Connection:
        connection = self._open.get(slot)
        if connection is not None and connection.fileno() >= 0:
            return connection
        if self._shared.closed:
            raise EngineError("riak: this client is closed")
        settings = self._shared.settings
        endpoints = self._shared.endpoints
        at = self._at.setdefault(slot, self._start + slot)
        made = Connection(
            endpoints[at % len(endpoints)],
            connect=_CONNECT_SECONDS,
            seconds=settings.timeout_seconds,
        )
        self._open[slot] = made
        return made

    def _forget(self, slot: int) -> None:
        if (connection := self._open.pop(slot, None)) is not None:
            connection.close()

    def _leave(self, slot: int) -> None:
        """Go on with the next node."""
        self._forget(slot)
        self._at[slot] = self._at.get(slot, self._start + slot) + 1

    @contextmanager
    def _words(self, verb: str) -> Iterator[None]:
        """One error with the verb, whatever it is of."""
        try:
            yield
        except EngineError as error:
            words = str(error).removeprefix("riak: ")
            raise EngineError(f"riak: {verb}: {words}") from error
