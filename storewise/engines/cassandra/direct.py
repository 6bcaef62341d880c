"""Single rows of a server that stands alone, without the driver: Cassandra's own protocol.

The driver has one thread for the sockets of a process, and each request passes it on its way there
and back. Statements are the driver's own, prepared and bound by it. The protocol, version 4:
https://github.com/apache/cassandra/blob/trunk/doc/native_protocol_v4.spec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from cassandra import AuthenticationFailed, DriverException, OperationTimedOut
from cassandra.connection import ConnectionException

from storewise.engines.cassandra.cluster import PROTOCOL
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.support.direct import DirectConnection

#: Version, flags, stream and opcode, length of the body.
_HEADER = struct.Struct(">BBhBi")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">H")
_LONG = struct.Struct(">q")
_ERROR, _STARTUP, _READY, _AUTHENTICATE = 0x00, 0x01, 0x02, 0x03
_RESULT, _PREPARE, _EXECUTE, _AUTH_RESPONSE, _AUTH_SUCCESS = 0x08, 0x09, 0x0A, 0x0F, 0x10
#: Of a header: the body begins with a list of texts.
_WARNINGS = 0x08
#: Of EXECUTE: it has values, needs no description of the columns, has the client's time.
_VALUES, _SKIP_METADATA, _TIMESTAMP = 0x01, 0x02, 0x20
#: Kinds of RESULT, and flags of rows: there are more pages; the columns are not described.
_ROWS, _PREPARED = 2, 4
_MORE_PAGES, _NO_METADATA = 0x02, 0x04
_UNPREPARED, _BAD_CREDENTIALS = 0x2500, 0x0100

Row = tuple[Any, ...]


class Lost(ConnectionException):  # type: ignore[misc]
    """The connection is lost; the server may be there again, or soon be."""


class Refused(DriverException):  # type: ignore[misc]
    """The server has answered with an error, or with something else than was asked for."""

    def __init__(self, words: str, code: int = -1) -> None:
        super().__init__(words)
        self.code = code
        """As in chapter 9 of the protocol; -1: no error of the server."""


class Direct(DirectConnection):
    """A connection to one server, logged in.

    Its methods raise Lost where the connection is lost and OperationTimedOut where no answer has
    come in time. Refused: the server does not do it. `connect` and `seconds` (s) bound the way in
    and each request; `level` is the consistency of all requests, and `now` gives the time of
    writes, microseconds since 1970.
    """

    def __init__(
        self,
        server: Endpoint,
        credentials: Credentials,
        *,
        connect: float,
        seconds: float,
        level: int,
        now: Callable[[], int],
    ) -> None:
        super().__init__(server, str(server), connect)
        self._level, self._now = level, now
        #: By the driver's id of a statement: all before its values, and how columns are read.
        self._known: dict[bytes, tuple[bytes, tuple[Callable[[bytes, int], Any], ...]]] = {}
        try:
            self._log_in(credentials)
            self._wait_up_to(seconds)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _lost(words: str) -> Exception:
        return Lost(words)

    @staticmethod
    def _late(name: str) -> Exception:
        late: Exception = OperationTimedOut({name: "no answer in time"})
        return late

    @staticmethod
    def _size(data: bytes) -> int:
        length = _HEADER.unpack_from(data)[4] if len(data) >= _HEADER.size else 0
        return _HEADER.size + int(length)

    def execute(self, statement: Any, values: Sequence[bytes | None]) -> list[Row]:
        """The rows of a statement that the driver has prepared, for the values that it has bound;
        none of a write. All rows come at once, without pages."""
        known = self._known.get(statement.query_id)
        if known is None:
            known = self._known[statement.query_id] = self._request(statement)
        head, readers = known
        parts = [head]
        for value in values:
            parts += (_NULL,) if value is None else (_INT.pack(len(value)), value)
        if not readers:
            parts.append(_LONG.pack(self._now()))
        request = b"".join(parts)
        try:
            answer = self._ask(_EXECUTE, request)
        except Refused as error:
            if error.code != _UNPREPARED:
                raise
            # A server that has begun again knows no statements.
            self._prepare(statement)
            answer = self._ask(_EXECUTE, request)
        return _rows(answer, readers) if readers else []

    def _request(self, statement: Any) -> tuple[bytes, tuple[Callable[[bytes, int], Any], ...]]:
        readers = tuple(type_.deserialize for *_, type_ in statement.result_metadata or ())
        # Only writes have the client's time, and only reads have columns.
        flags = _VALUES | (_SKIP_METADATA if readers else _TIMESTAMP)
        identifier, number = statement.query_id, len(statement.column_metadata)
        head = _SHORT.pack(len(identifier)) + identifier + _SHORT.pack(self._level)
        return head + bytes([flags]) + _SHORT.pack(number), readers

    def _prepare(self, statement: Any) -> None:
        cql = statement.query_string.encode()
        answer = self._ask(_PREPARE, _INT.pack(len(cql)) + cql)
        if _kind(answer) != _PREPARED or _text(answer, 4) != statement.query_id:
            raise Refused(f"{self._name}: prepares another statement than before")

    def _ask(self, opcode: int, body: bytes, expected: tuple[int, ...] = (_RESULT,)) -> bytes:
        """Send one message; the body of the answer."""
        answered, answer = self._message(opcode, body)
        if answered == _ERROR:
            words = _text(answer, 4).decode(errors="replace")
            raise Refused(f"{self._name}: {words}", _INT.unpack_from(answer)[0])
        if answered not in expected:
            raise Refused(f"{self._name}: answers with a message of type {answered:#x}")
        return answer

    def _message(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        """Send one message; opcode and body of the answer."""
        data = self._exchange(_HEADER.pack(PROTOCOL, 0, 0, opcode, len(body)) + body)
        _, flags, _, answered, _ = _HEADER.unpack_from(data)
        start = _HEADER.size
        if flags & _WARNINGS:
            (left,) = _SHORT.unpack_from(data, start)
            start += _SHORT.size
            for _ in range(left):
                start += _SHORT.size + _SHORT.unpack_from(data, start)[0]
        return answered, data[start:]

    def _log_in(self, credentials: Credentials) -> None:
        """SASL PLAIN, as the server's PasswordAuthenticator wants it; AuthenticationFailed."""
        version = b"".join(_SHORT.pack(len(w)) + w for w in (b"CQL_VERSION", b"3.0.0"))
        answered, _ = self._message(_STARTUP, _SHORT.pack(1) + version)
        if answered == _READY:
            return
        if answered != _AUTHENTICATE:
            raise Refused(f"{self._name}: asks for no password, answers {answered:#x}")
        token = f"\0{credentials.user}\0{credentials.password}".encode()
        try:
            self._ask(_AUTH_RESPONSE, _INT.pack(len(token)) + token, (_AUTH_SUCCESS,))
        except Refused as error:
            if error.code != _BAD_CREDENTIALS:
                raise
            raise AuthenticationFailed(str(error)) from error


_NULL = _INT.pack(-1)


def _kind(answer: bytes) -> int:
    return int(_INT.unpack_from(answer)[0])


def _text(data: bytes, start: int) -> bytes:
    """Bytes behind their length of two bytes."""
    (size,) = _SHORT.unpack_from(data, start)
    return data[start + _SHORT.size : start + _SHORT.size + size]


def _rows(answer: bytes, readers: Sequence[Callable[[bytes, int], Any]]) -> list[Row]:
    kind, flags, columns, number = struct.unpack_from(">iiii", answer)
    bare = flags & (_NO_METADATA | _MORE_PAGES) == _NO_METADATA
    if kind != _ROWS or not bare or columns != len(readers):
        raise Refused(f"rows of another form: {kind}, {flags:#x}, {columns} columns")
    at, rows, size_at = 16, [], _INT.unpack_from
    for _ in range(number):
        row: list[Any] = []
        for read in readers:
            start = at + 4
            (size,) = size_at(answer, at)
            if size < 0:
                at = start
                row.append(None)
            else:
                at = start + size
                row.append(read(answer[start:at], PROTOCOL))
        rows.append(tuple(row))
    return rows
