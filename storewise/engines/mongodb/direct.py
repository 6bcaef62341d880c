"""Single documents of a server that stands alone, without pymongo: its wire protocol.

pymongo chooses a server, checks out a connection, and makes a session and a cursor for each read:
several times the work of the read itself. A server that stands alone leaves nothing to choose, so
one message each way does. pymongo's own `bson`, which is in C, makes and reads the messages, and
everything else goes through pymongo. The protocol (OP_MSG):
https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import bson
from pymongo.errors import AutoReconnect, OperationFailure

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.mongodb.cluster import host_port

_HEADER = struct.Struct("<iiiiIB")
_OP_MSG = 2013
_READ = 1 << 16
#: Of a connection that has rested so long (s) is asked first whether the server has closed it.
_RESTED = 1.0


class Lost(AutoReconnect):
    """The connection is lost; the server may be there again, or soon be."""


class Direct:
    """A connection to one server, logged in; for one thread at a time.

    Its methods raise Lost where the connection is lost and AutoReconnect where no answer has come
    in time; it is closed then. OperationFailure: the server refuses a command.
    """

    def __init__(self, server: Endpoint, credentials: Credentials, connect: float, seconds: float):
        self._name = host_port(server)
        self._used = time.monotonic()
        try:
            self._socket = socket.create_connection((server.address, server.port), connect)
        except OSError as error:
            raise Lost(f"{self._name}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # The kernel bounds each wait: Python would ask for one more system call each time.
        limit = struct.pack("ll", int(seconds), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket.settimeout(None)
        try:
            self._log_in(credentials)
        except BaseException:
            self.close()
            raise

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

    def find_one(
        self, database: str, collection: str, document_id: Any, more: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The document with this ``_id``; `more` are further fields of the command."""
        command = {"find": collection, "filter": {"_id": document_id}, "limit": 1}
        answer = self.call({**command, "singleBatch": True, **more, "$db": database})
        documents: list[dict[str, Any]] = answer["cursor"]["firstBatch"]
        return documents[0] if documents else None

    def set_fields(
        self,
        database: str,
        collection: str,
        document_id: Any,
        values: Mapping[str, Any],
        concern: Mapping[str, Any],
    ) -> bool:
        """Set fields of the document with this ``_id``; whether there is one."""
        update = {"q": {"_id": document_id}, "u": {"$set": values}}
        answer = self.call(
            {"update": collection, "updates": [update], "writeConcern": concern, "$db": database}
        )
        for problem in (*answer.get("writeErrors", ()), answer.get("writeConcernError")):
            if problem:
                raise OperationFailure(problem.get("errmsg", ""), problem.get("code"), answer)
        return bool(answer["n"] > 0)

    def call(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command, which names its database in ``$db``; the server's answer."""
        body = bson.encode(command)
        message = _HEADER.pack(_HEADER.size + len(body), 0, 0, _OP_MSG, 0, 0) + body
        try:
            self._socket.sendall(message)
            data = self._socket.recv(_READ)
            # A length of 4 bytes comes first; one packet has nearly always all.
            while len(data) < 4 or len(data) < int.from_bytes(data[:4], "little"):
                more = self._socket.recv(_READ)
                if not more:
                    raise ConnectionResetError("the server has closed the connection")
                data += more
        except BlockingIOError as error:
            self.close()
            raise AutoReconnect(f"{self._name}: timed out") from error
        except OSError as error:
            self.close()
            raise Lost(f"{self._name}: {error}") from error
        except BaseException:
            self.close()  # else the next command would get this one's answer
            raise
        self._used = time.monotonic()
        answer: dict[str, Any] = bson.decode(data[_HEADER.size :])
        if not answer.get("ok"):
            raise OperationFailure(answer.get("errmsg", ""), answer.get("code"), answer)
        return answer

    def close(self) -> None:
        self._socket.close()

    def _log_in(self, credentials: Credentials) -> None:
        """SCRAM-SHA-256 (RFC 5802): both prove that they know the password, and neither says it."""
        nonce = base64.b64encode(os.urandom(24)).decode()
        first = f"n={credentials.user},r={nonce}"
        start = self.call(
            {
                "saslStart": 1,
                "mechanism": "SCRAM-SHA-256",
                "payload": f"n,,{first}".encode(),
                "options": {"skipEmptyExchange": True},
                "$db": "admin",
            }
        )
        challenge = start["payload"].decode()
        told = dict(part.split("=", 1) for part in challenge.split(","))
        if not told["r"].startswith(nonce):
            raise OperationFailure("the server has not answered the question of this client")
        salted = _salted(credentials.password, told["s"], int(told["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={told['r']}"
        signed = f"{first},{challenge},{last}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        done = self.call(
            {
                "saslContinue": 1,
                "conversationId": start["conversationId"],
                "payload": f"{last},p={base64.b64encode(proof).decode()}".encode(),
                "$db": "admin",
            }
        )
        theirs = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        expected = b"v=" + base64.b64encode(theirs)
        if not done["done"] or not hmac.compare_digest(done["payload"], expected):
            raise OperationFailure("the server does not know the password of this session")


@lru_cache(maxsize=4)
def _salted(password: str, salt: str, rounds: int) -> bytes:
    """What a password becomes, which takes thousands of hashes: the same for each connection."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), rounds)
