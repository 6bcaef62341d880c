"""Riak's protocol buffers: frames, the few messages that Storewise needs, and one connection.

A frame is a length (4 bytes, big-endian, the code counted), a code (1 byte) and a message. Codes,
fields and the numbers of quorums are those of riak_pb
(https://docs.riak.com/riak/kv/latest/developing/api/protocol-buffers/). Encoding:
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

ERROR = 0
PING, PONG = 1, 2
SERVER_INFO, SERVER_INFO_ANSWER = 7, 8
GET, GET_ANSWER = 9, 10
PUT, PUT_ANSWER = 11, 12
DELETE, DELETE_ANSWER = 13, 14
PREFERENCE, PREFERENCE_ANSWER = 33, 34

#: Words for numbers of replicas, as the protocol has them.
QUORUMS = {"one": 0xFFFFFFFE, "quorum": 0xFFFFFFFD, "all": 0xFFFFFFFC}
#: A frame beyond this is an error, bytes: Riak refuses objects above 50 MB.
MAX_FRAME = 128 * 1024 * 1024
JSON = b"application/json"

_HEADER = struct.Struct(">I")
_VARINT, _BYTES = 0, 2
#: Lengths of the types of fields that have a fixed one.
_FIXED = {1: 8, 5: 4}
_VARINT_BYTES = 10
_CHUNK = 1 << 16

Value = int | bytes

#: All that Riak says of its own time-outs.
_GAVE_UP = "timeout"


class Refused(EngineError):
    """The server answered with an error; the connection is as good as before."""


class GaveUp(Refused):
    """The server waited in vain for other nodes, and says so after a minute or its own limit."""


class Broken(EngineError):
    """There is no connection, or it ended; another node may do what was asked."""


class Malformed(EngineError):
    """Bytes that are no answer of Riak's."""


@lru_cache(maxsize=4096)
def varint(value: int) -> bytes:
    """An unsigned number of up to 64 bits, 7 bits to a byte, lowest first."""
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is no unsigned number of 64 bits")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def message(*fields: tuple[int, Value | None]) -> bytes:
    """A message of (number, value): numbers and truths as varints, bytes with their length.

    Fields whose value is None are left out.
    """
    parts: list[bytes] = []
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, int):
            parts += (varint(number << 3 | _VARINT), varint(value))
        else:
            parts += (varint(number << 3 | _BYTES), varint(len(value)), value)
    return b"".join(parts)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place and the place behind it."""
    value = 0
    for count in range(_VARINT_BYTES):
        if at + count >= len(data):
            raise Malformed("riak: a message ends within a number")
        byte = data[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + count + 1
    raise Malformed("riak: a message has a number of more than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message as (number, value), in their order.

    Raises Malformed for a message that ends too early or has a type of field that protocol
    buffers of version 2 do not have; fixed-width fields come as their bytes.
    """
    at, end = 0, len(data)
    while at < end:
        # Most numbers take one byte; a call for each would be half of the time of a read.
        key = data[at]
        if key < 0x80:
            at += 1
        else:
            key, at = _varint_at(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise Malformed("riak: a message has a field without a number")
        if kind == _VARINT:
            value, at = _varint_at(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            if at < end and (length := data[at]) < 0x80:
                at += 1
            else:
                length, at = _varint_at(data, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise Malformed(f"riak: a message has a field of the unknown type {kind}")
        if length > end - at:
            raise Malformed(f"riak: a message ends within field {number}")
        yield number, data[at : at + length]
        at += length


def _bytes(number: int, value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise Malformed(f"riak: field {number} of an answer is a number, not bytes")
    return value


def _number(number: int, value: Value) -> int:
    if not isinstance(value, int):
        raise Malformed(f"riak: field {number} of an answer is bytes, not a number")
    return value


def frame(code: int, body: bytes = b"") -> bytes:
    """A request as it is sent."""
    return _HEADER.pack(len(body) + 1) + bytes((code,)) + body


def put_request(
    bucket: bytes,
    key: bytes,
    value: bytes,
    *,
    w: int | None = None,
    dw: int | None = None,
    vclock: bytes | None = None,
) -> bytes:
    """The frame that stores a JSON value; `vclock` of the object that it replaces."""
    content = message((1, value), (2, JSON))
    return frame(PUT, message((1, bucket), (2, key), (3, vclock), (4, content), (5, w), (6, dw)))


def get_request(
    bucket: bytes, key: bytes, *, r: int | None = None, pr: int | None = None, head: bool = False
) -> bytes:
    """The frame that asks for an object, with `head` for all of it but the value; `pr` holders
    must be there themselves, nobody standing in for them."""
    return frame(GET, message((1, bucket), (2, key), (3, r), (4, pr), (8, 1 if head else None)))


def delete_request(
    bucket: bytes,
    key: bytes,
    *,
    vclock: bytes | None = None,
    r: int | None = None,
    w: int | None = None,
    dw: int | None = None,
) -> bytes:
    """The frame that deletes an object; `vclock` of the object as it was read."""
    return frame(DELETE, message((1, bucket), (2, key), (4, vclock), (5, r), (6, w), (9, dw)))


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: its values (more than one: siblings) and its vector clock."""

    values: tuple[bytes, ...]
    vclock: bytes | None


def read_get(body: bytes) -> StoredObject | None:
    """The object of a get's answer; None where there is none (or only its tombstone)."""
    values: list[bytes] = []
    vclock: bytes | None = None
    for number, value in fields(body):
        if number == 1:
            stored, deleted = b"", False
            for n, v in fields(_bytes(number, value)):
                if n == 1:
                    stored = _bytes(n, v)
                elif n == 11:
                    deleted = bool(v)
            if not deleted:
                values.append(stored)
        elif number == 2:
            vclock = _bytes(number, value)
    return StoredObject(tuple(values), vclock) if values else None


def read_error(body: bytes) -> str:
    """The server's own words."""
    text = next((_bytes(n, v) for n, v in fields(body) if n == 1), b"")
    return text.decode(errors="replace") or "an error without words"


def read_server_info(body: bytes) -> tuple[str, str]:
    """(name of the Erlang node, version)."""
    texts = {n: _bytes(n, v).decode(errors="replace") for n, v in fields(body) if n in (1, 2)}
    return texts.get(1, ""), texts.get(2, "")


@dataclass(frozen=True, slots=True)
class Holder:
    """One entry of a preference list."""

    partition: int
    """Its number, from 0 in the order of the ring."""
    node: str
    primary: bool


def read_preference(body: bytes) -> list[Holder]:
    """The partitions that hold a key, the one that its hash falls to first."""
    holders = []
    for number, value in fields(body):
        if number == 1:
            item = dict(fields(_bytes(number, value)))
            try:
                partition, node, primary = item[1], item[2], item[3]
            except KeyError as error:
                raise Malformed(f"riak: an entry of a preference list lacks {error}") from error
            name = _bytes(2, node).decode(errors="replace")
            holders.append(Holder(_number(1, partition), name, bool(_number(3, primary))))
    return holders


class Connection:
    """One connection to a node; one request at a time, or several whose answers come in order.

    After Broken or Malformed it is closed. `seconds` is the time for each answer, and for each
    wait until the node takes more.
    """

    def __init__(self, endpoint: Endpoint, *, connect: float, seconds: float) -> None:
        self.endpoint = endpoint
        self._buffer = b""
        self._at = 0
        """Where the next answer begins in the buffer."""
        try:
            self._socket = socket.create_connection((endpoint.address, endpoint.port), connect)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.seconds = seconds
        except OSError as error:
            raise Broken(f"{self.where}: {error.strerror or error}") from error

    @property
    def seconds(self) -> float:
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        # The kernel keeps the time: Python's own time-outs cost two more system calls each.
        # Zero would be no limit there.
        self._seconds = seconds
        limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or 1)
        self._socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, limit)

    @property
    def where(self) -> str:
        endpoint = self.endpoint
        return f"{endpoint.name} at {endpoint.address}:{endpoint.port}"

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def close(self) -> None:
        """A second call does nothing."""
        self._socket.close()

    def request(self, request: bytes, answer: int) -> bytes:
        """The body of the answer, whose code must be `answer`."""
        self.send(request)
        return self.receive(answer)

    def send(self, requests: bytes) -> None:
        """Send one request, or several at once."""
        try:
            self._socket.sendall(requests)
        except OSError as error:
            self.close()
            raise Broken(f"{self.where}: {self._words(error)}") from error

    def receive(self, answer: int) -> bytes:
        """The body of the next answer; Refused with the server's words for an error."""
        try:
            if len(self._buffer) - self._at < _HEADER.size:
                self._fill(_HEADER.size)
            (length,) = _HEADER.unpack_from(self._buffer, self._at)
            if not 1 <= length <= MAX_FRAME:
                raise Malformed(f"{self.where}: a frame of {length} bytes is no answer of Riak's")
            if len(self._buffer) - self._at < _HEADER.size + length:
                self._fill(_HEADER.size + length)
            start = self._at + _HEADER.size
            code = self._buffer[start]
            self._at = start + length
            body = self._buffer[start + 1 : self._at]
            if code == ERROR:
                words = read_error(body)
            elif code != answer:
                raise Malformed(f"{self.where}: answered with code {code} instead of {answer}")
        except BaseException:
            # Whatever comes later would be taken for another request's answer.
            self.close()
            raise
        if code == ERROR:
            kind = GaveUp if words == _GAVE_UP else Refused
            raise kind(f"{self.where}: {words}")
        return body

    def _fill(self, size: int) -> None:
        """Wait until `size` bytes are there from the place of the next answer on."""
        self._buffer = self._buffer[self._at :]
        self._at = 0
        if not self._buffer:
            self._buffer = self._receive(size)
        if len(self._buffer) >= size:
            return
        until = time.monotonic() + self._seconds
        parts = bytearray(self._buffer)
        while len(parts) < size:
            if time.monotonic() > until:
                raise self._late()
            parts += self._receive(size - len(parts))
        self._buffer = bytes(parts)

    def _receive(self, size: int) -> bytes:
        try:
            data = self._socket.recv(max(_CHUNK, size))
        except BlockingIOError as error:
            raise self._late() from error
        except OSError as error:
            raise Broken(f"{self.where}: {self._words(error)}") from error
        if not data:
            within = " in the middle of an answer" if self._buffer or size > 4 else ""
            raise Broken(f"{self.where}: the server closed the connection{within}")
        return data

    def _late(self) -> EngineError:
        return EngineError(
            f"{self.where}: no answer within {self._seconds:g} s (see the setting "
            "`timeout_seconds`)"
        )

    def _words(self, error: OSError) -> str:
        if isinstance(error, BlockingIOError):
            return f"took nothing within {self.seconds:g} s"
        return error.strerror or str(error)


def quorum(value: int | str | None) -> int | None:
    """A number of replicas as the protocol has it; None: the bucket's own."""
    return QUORUMS[value] if isinstance(value, str) else value
