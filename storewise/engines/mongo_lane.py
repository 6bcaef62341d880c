"""A connection of one thread to one MongoDB server, for what is asked most often.

The driver costs a client some 150 µs of processor time for one document (sessions, pools, checks,
cursors), so that one process cannot ask for more than 7,000 documents a second; this costs a fifth
of that. It knows only what goes right: whoever gets `Trouble` asks the driver, with its elections,
retries and words of errors.

Protocol: https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/ (OP_MSG); log in:
SCRAM-SHA-256, RFC 7677 and https://www.mongodb.com/docs/manual/core/security-scram/
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import secrets
import socket
import struct
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import bson
from bson.errors import BSONError

_OP_MSG = 2013
#: Length, number of the request, of the request that this answers, code, flags, kind of section.
_HEAD = struct.Struct("<iiiiiB")
_LENGTH = struct.Struct("<i")
_CONNECT_SECONDS = 5.0
_RECEIVE = 1 << 16
#: The most that a server takes in one message is 48,000,000 bytes, and 100,000 documents.
MOST_BYTES, MOST_DOCUMENTS = 40_000_000, 100_000


class Trouble(Exception):
    """The server could not be asked this way, or has refused."""


class Lane:
    """One connection; for one thread."""

    def __init__(self, address: str, port: int, user: str, password: str) -> None:
        self._numbers = itertools.count(1)
        try:
            self._socket = socket.create_connection((address, port), _CONNECT_SECONDS)
            # Threads end with their step.
            weakref.finalize(self, self._socket.close)
        except OSError as error:
            raise Trouble(str(error)) from error
        self.open = True
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(user, password)
            # As the driver does: a server that thinks is waited for.
            self._socket.settimeout(None)
        except (KeyError, ValueError, TypeError) as error:
            self.close()
            raise Trouble(f"an answer to the log in that makes no sense: {error!r}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.open = False
        self._socket.close()

    def ask(
        self, command: Mapping[str, Any], documents: Sequence[bytes] | None = None
    ) -> dict[str, Any]:
        """The answer to a command, which names its database as ``$db``, with the BSON of its
        `documents`. After Trouble the connection is closed."""
        body = bson.encode(command)
        try:
            if documents is not None:
                part = b"".join(documents)
                body += b"\x01" + _LENGTH.pack(len(part) + 14) + b"documents\0" + part
            number = next(self._numbers)
            self._socket.sendall(
                _HEAD.pack(len(body) + _HEAD.size, number, 0, _OP_MSG, 0, 0) + body
            )
            answer: dict[str, Any] = bson.decode(self._receive(number))
        except (OSError, ValueError, struct.error, BSONError) as error:
            self.close()
            raise Trouble(str(error)) from error
        except BaseException:
            # The answer that is still to come would be taken for that to a later request.
            self.close()
            raise
        if answer.get("ok") != 1:
            self.close()
            raise Trouble(str(answer.get("errmsg")))
        return answer

    def _receive(self, number: int) -> bytes:
        found = self._socket.recv(_RECEIVE)
        while len(found) < _HEAD.size:
            found += self._more(_RECEIVE)
        size, _, answered, code, flags, section = _HEAD.unpack_from(found)
        if (answered, code, flags, section) != (number, _OP_MSG, 0, 0):
            raise ValueError(f"an unknown answer: {found[: _HEAD.size].hex()}")
        if len(found) < size:
            parts = [found]
            missing = size - len(found)
            while missing:
                part = self._more(min(missing, 1 << 20))
                parts.append(part)
                missing -= len(part)
            found = b"".join(parts)
        return found[_HEAD.size : size]

    def _more(self, most: int) -> bytes:
        part = self._socket.recv(most)
        if not part:
            raise ConnectionError("the server has closed the connection")
        return part

    def _log_in(self, user: str, password: str) -> None:
        nonce = base64.b64encode(secrets.token_bytes(24)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        first = f"n={name},r={nonce}"
        answer = self.ask(
            {
                "saslStart": 1,
                "mechanism": "SCRAM-SHA-256",
                "payload": f"n,,{first}".encode(),
                "options": {"skipEmptyExchange": True},
                "$db": "admin",
            }
        )
        challenge = bytes(answer["payload"]).decode()
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        if not parts["r"].startswith(nonce):
            raise Trouble("the server has answered somebody else's log in")
        salted = hashlib.pbkdf2_hmac(
            "sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        final = f"c=biws,r={parts['r']}"
        signed = f"{first},{challenge},{final}".encode()
        key = _mac(salted, b"Client Key")
        signature = _mac(hashlib.sha256(key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        answer = self.ask(
            {
                "saslContinue": 1,
                "conversationId": answer["conversationId"],
                "payload": f"{final},p={base64.b64encode(proof).decode()}".encode(),
                "$db": "admin",
            }
        )
        expected = base64.b64encode(_mac(_mac(salted, b"Server Key"), signed))
        if not answer["done"] or bytes(answer["payload"]) != b"v=" + expected:
            raise Trouble("the server does not know the password itself")


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
