"""A connection to a Riak cluster, and batches over several of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError

from storewise.engines.contract.engine import Endpoint
from storewise.engines.riak.messages import CODES, HEADER, frame, pb
from storewise.errors import EngineError

_CONNECT_SECONDS = 5.0
#: How often a request is sent, at most.
_TRIES = 3
#: Requests that are sent at once on a connection: a node answers them one after another.
_WINDOW = 32
#: A frame beyond this is an error, bytes: Riak refuses objects above 50 MB.
_MAX_FRAME = 128 << 20


class NoAnswer(EngineError):
    """The node does not answer; another one may."""


class Connection:
    """A connection to one of the nodes, opened when it is needed.

    A request without an answer (no connection, none within `seconds`, or Riak's own `timeout`,
    which it says after a minute where it waited for a node that died) is sent again to the next
    node: all that Storewise asks may be done twice. After each error the connection is closed, as
    whatever comes later would be taken for another request's answer.
    """

    def __init__(self, endpoints: Sequence[Endpoint], first: int, seconds: float) -> None:
        self._endpoints, self._node, self._seconds = endpoints, first, seconds
        self._socket: socket.socket | None = None
        self._answers: BinaryIO

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoints[self._node % len(self._endpoints)]

    def open(self) -> socket.socket:
        """Connect to the node, or to the first one after it that can be reached."""
        problems = []
        for _ in self._endpoints:
            address = self.endpoint.address, self.endpoint.port
            try:
                made = socket.create_connection(address, _CONNECT_SECONDS)
            except OSError as error:
                problems.append(str(self._no_answer(error)))
                continue
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.settimeout(self._seconds)
            self._socket, self._answers = made, made.makefile("rb")
            return made
        raise NoAnswer("; ".join(problems))

    def close(self) -> None:
        """A second call does nothing; the next request opens it again."""
        if self._socket is not None:
            self._answers.close()
            self._socket.close()
            self._socket = None

    def request(self, message: Any, response: Any) -> Any:
        """Send a message; returns its response, a message of the class `response`."""
        problems: list[str] = []
        for _ in range(_TRIES):
            try:
                self.send([message])
                return self.receive(response)
            except NoAnswer as error:
                problems.append(str(error))
        raise NoAnswer("; ".join(dict.fromkeys(problems)))

    def send(self, messages: Sequence[Any]) -> None:
        """Send messages at once."""
        connection = self._socket or self.open()
        try:
            connection.sendall(b"".join(map(frame, messages)))
        except OSError as error:
            raise self._no_answer(error) from error

    def receive(self, response: Any) -> Any:
        """The next response; EngineError with the server's message for an error."""
        if self._socket is None:
            raise NoAnswer("riak: not connected")
        try:
            return self._receive(response)
        except (OSError, DecodeError) as error:
            raise self._no_answer(error) from error
        except BaseException:
            self.close()
            raise

    def _receive(self, response: Any) -> Any:
        length, code = HEADER.unpack(self._read(HEADER.size))
        if not 1 <= length <= _MAX_FRAME:
            raise EngineError(
                f"riak: {self.endpoint}: not a Riak response (a frame of {length} bytes): is "
                "another server on this port?"
            )
        body = self._read(length - 1)
        if code == CODES["RpbErrorResp"]:
            message = pb.RpbErrorResp.FromString(body).errmsg.decode()
            if message == "timeout":
                raise self._no_answer(message)
            raise EngineError(f"riak: {self.endpoint}: {message}")
        if code != CODES[response.__name__]:
            raise EngineError(f"riak: {self.endpoint}: answered with code {code}")
        return response.FromString(body)

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise ConnectionError("the server closed the connection")
        return data

    def _no_answer(self, reason: Exception | str) -> NoAnswer:
        """The error; the next request goes to the next node, by a new connection."""
        if isinstance(reason, TimeoutError) and self._socket is not None:
            reason = f"no answer within {self._seconds:g} s"
        self.close()
        error = NoAnswer(f"riak: {self.endpoint}: {reason}")
        self._node += 1
        return error


def request_all(
    connections: Sequence[Connection], messages: Sequence[Any], response: Any
) -> list[Any]:
    """Send messages over several connections at once; returns their responses in order."""
    responses: list[Any] = []
    size = min(_WINDOW, 1 + len(messages) // len(connections))
    lots = [messages[at : at + size] for at in range(0, len(messages), size)]
    try:
        for turn in range(0, len(lots), len(connections)):
            pairs = list(zip(connections, lots[turn:], strict=False))
            for connection, lot in pairs:
                with suppress(NoAnswer):  # it is told when the responses are read
                    connection.send(lot)
            for connection, lot in pairs:
                responses += _responses(connection, lot, response)
    except BaseException:
        # Responses still to come would be read as those to later requests.
        for connection in connections:
            connection.close()
        raise
    return responses


def _responses(connection: Connection, sent: Sequence[Any], response: Any) -> Iterator[Any]:
    """The responses to what was sent; from the first one that fails on, each is asked for again."""
    messages = iter(sent)
    for message in messages:
        try:
            yield connection.receive(response)
        except NoAnswer:
            yield connection.request(message, response)
            break
    for message in messages:
        yield connection.request(message, response)
