"""Single documents of a server that stands alone, without pymongo: its wire protocol.

pymongo's own `bson`, which is in C, makes and reads the messages. The protocol (OP_MSG):
https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import bson
from pymongo.errors import AutoReconnect, OperationFailure

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.mongodb.cluster import host_port
from storewise.engines.support.direct import DirectConnection

_HEADER = struct.Struct("<iiiiIB")
_OP_MSG = 2013


class Lost(AutoReconnect):
    """The connection is lost; the server may be there again, or soon be."""


class Direct(DirectConnection):
    """A connection to one server, logged in; `connect` and `seconds` (s) bound the way in and each
    answer.

    Its methods raise Lost where the connection is lost and AutoReconnect where no answer has come
    in time. OperationFailure: the server refuses a command.
    """

    def __init__(self, server: Endpoint, credentials: Credentials, connect: float, seconds: float):
        super().__init__(server, host_port(server), connect)
        try:
            self._wait_up_to(seconds)
            self._log_in(credentials)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _lost(words: str) -> Exception:
        return Lost(words)

    @staticmethod
    def _late(name: str) -> Exception:
        return AutoReconnect(f"{name}: timed out")

    @staticmethod
    def _size(data: bytes) -> int:
        # A length of 4 bytes comes first.
        return int.from_bytes(data[:4], "little") if len(data) >= 4 else _HEADER.size

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
        data = self._exchange(message)
        answer: dict[str, Any] = bson.decode(data[_HEADER.size :])
        if not answer.get("ok"):
            raise OperationFailure(answer.get("errmsg", ""), answer.get("code"), answer)
        return answer

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
