"""Another user of the host who tries to get into a store's servers, from the moment they listen.

``python intruder.py KIND LOG`` as root: becomes the user nobody, then reads from its
standard input where to try, a line each (``tcp ADDRESS PORT``, ``unix PATH``, ``process PID``),
and tries them again and again until its input ends. LOG gets a line of JSON for each attempt: what
was tried, what was answered, and whether that means that he is in.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from storewise.errors import EngineError

NOBODY = 65534
#: What he knows without being told: the engines' own first users, and usual words.
LOGINS = [
    ("root", ""), ("root", "root"), ("admin", "admin"), ("storewise", ""),
    ("storewise", "storewise"), ("nobody", ""),
]  # fmt: skip
_SECONDS = 3.0
#: What a server says, whoever asks, is no way in.
Attempt = tuple[str, bool, str]


def postgres(address: str, port: int) -> Iterator[Attempt]:
    import psycopg

    for user, password in [("postgres", ""), ("postgres", "postgres"), *LOGINS]:
        for database in ("postgres", "template1", "storewise"):
            tried = f"log in as {user}/{password or 'no password'} to {database}"
            try:
                with psycopg.connect(
                    host=address, port=port, user=user, password=password, dbname=database,
                    connect_timeout=3, autocommit=True,
                ) as connection:  # fmt: skip
                    yield tried, True, "logged in"
                    yield _sql(connection, f"CREATE ROLE x{secrets.token_hex(4)} SUPERUSER LOGIN")
            except psycopg.Error as error:
                yield tried, False, _line(error)


def _sql(connection: Any, statement: str) -> Attempt:
    try:
        connection.cursor().execute(statement)
    except Exception as error:  # noqa: BLE001 - of several drivers
        return statement, False, _line(error)
    return statement, True, "done"


def mariadb(address: str, port: int) -> Iterator[Attempt]:
    import pymysql

    for user, password in [("", ""), ("mysql", ""), ("mariadb.sys", ""), *LOGINS]:
        tried = f"log in as {user or 'no user'}/{password or 'no password'}"
        try:
            connection = pymysql.connect(
                host=address, port=port, user=user, password=password, connect_timeout=3
            )
        except (pymysql.Error, OSError) as error:
            yield tried, False, _line(error)
            continue
        yield tried, True, "logged in"
        yield _sql(connection, f"CREATE USER x{secrets.token_hex(4)}@'%' IDENTIFIED BY 'x'")
        connection.close()


def mongodb(address: str, port: int) -> Iterator[Attempt]:
    import pymongo
    from pymongo.errors import OperationFailure, PyMongoError

    name = f"x{secrets.token_hex(4)}"
    roles = [{"role": "root", "db": "admin"}]
    commands: list[tuple[str, dict[str, Any]]] = [
        ("admin", {"createUser": name, "pwd": name, "roles": roles}),
        ("local", {"createUser": name, "pwd": name, "roles": roles}),
        ("admin", {"createRole": name, "privileges": [], "roles": ["root"]}),
        ("admin", {"replSetInitiate": {"_id": "x", "members": []}}),
        ("admin", {"replSetGetStatus": 1}),
        ("admin", {"listDatabases": 1}),
        ("admin", {"usersInfo": 1}),
        ("storewise", {"find": "rna", "limit": 1}),
        ("storewise", {"insert": "rna", "documents": [{"_id": name}]}),
        ("storewise", {"delete": "rna", "deletes": [{"q": {}, "limit": 0}]}),
        ("admin", {"shutdown": 1}),
    ]
    logins = [(user, password, "admin") for user, password in LOGINS if password]
    logins += [("__system", "storewise", "local"), (name, name, "admin")]
    for user, password, database in [("", "", ""), *logins]:
        options: dict[str, Any] = {}
        if user:
            options = {"username": user, "password": password, "authSource": database}
        request = commands if not user else [("admin", {"listDatabases": 1})]
        with pymongo.MongoClient[dict[str, Any]](
            address,
            port,
            directConnection=True,
            serverSelectionTimeoutMS=int(_SECONDS * 1000),
            **options,
        ) as client:
            for where, command in request:
                verb = next(iter(command))
                tried = f"{verb} on {where} as {user or 'nobody'}"
                try:
                    client[where].command(command)
                except OperationFailure as error:
                    inside = not _outside(error.code, str(error))
                    yield tried, inside, f"{error.code} {_line(error)}"
                except PyMongoError as error:
                    yield tried, False, _line(error)
                else:
                    yield tried, True, "done"


def _outside(code: int | None, words: str) -> bool:
    """Whether MongoDB's refusal is from before the door: "who are you?", a log-in that the server
    has dropped (17), and what a router has for nobody: the command (59) or users of `local`."""
    return code in (13, 17, 18, 59) or "Can't use 'local' database through mongos" in words


def cassandra(address: str, port: int) -> Iterator[Attempt]:
    from cassandra.protocol import QueryMessage

    name = f"x{secrets.token_hex(4)}"
    statements = [
        "SELECT role FROM system_auth.roles",
        f"CREATE ROLE {name} WITH PASSWORD = '{name}' AND SUPERUSER = true AND LOGIN = true",
        f"CREATE KEYSPACE {name} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    ]
    logins = [("cassandra", "cassandra"), ("", ""), (name, name), *LOGINS]
    for encrypted in (False, True):
        for user, password in logins:
            how = f"{user or 'no user'}/{password or 'no password'}{' by TLS' if encrypted else ''}"
            try:
                connection = _dial(address, port, user, password, encrypted=encrypted)
            except Exception as error:  # noqa: BLE001 - the driver raises many kinds
                yield f"log in as {how}", False, _line(error)
                continue
            for statement in statements:
                try:
                    connection.wait_for_response(QueryMessage(statement, 1), timeout=_SECONDS)
                except Exception as error:  # noqa: BLE001 - as above
                    yield f"{statement} as {how}", False, _line(error)
                else:
                    yield f"{statement} as {how}", True, "done"
            connection.close()


def _dial(address: str, port: int, user: str, password: str, *, encrypted: bool) -> Any:
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import DefaultConnection
    from cassandra.connection import DefaultEndPoint

    login = PlainTextAuthProvider(user, password).new_authenticator(address) if user else None
    context = None
    if encrypted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    DefaultConnection.initialize_reactor()
    return DefaultConnection.factory(
        DefaultEndPoint(address, port), _SECONDS, authenticator=login, protocol_version=4,
        compression=False, ssl_context=context,
    )  # fmt: skip


def hbase(address: str, port: int) -> Iterator[Attempt]:
    """He is asked for no name: what he can do is written down, port by port."""
    yield _words(address, port, "ZooKeeper: srvr", b"srvr")
    yield _words(address, port, "HTTP: GET /jmx", b"GET /jmx HTTP/1.0\r\n\r\n")
    yield from _thrift(address, port)


def _words(address: str, port: int, tried: str, words: bytes) -> Attempt:
    try:
        with socket.create_connection((address, port), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(words)
            output = connection.recv(200)
    except OSError as error:
        return tried, False, _line(error)
    known = (b"Zookeeper version", b"HTTP/1.1 200", b"HTTP/1.0 200", b"OK")
    # epmd's names come behind its own port.
    inside = output.startswith(known) or output[4:9] == b"name "
    return tried, inside, output[:60].decode(errors="replace")


def _thrift(address: str, port: int) -> Iterator[Attempt]:
    from storewise.engines.contract.engine import Endpoint
    from storewise.engines.hbase.connection import NAMESPACE, Connection, idl

    table, row = b"rna", b"x" + secrets.token_bytes(4)
    put = idl.TPut(row, [idl.TColumnValue(b"d", b"x", b"1")])
    connection = Connection(Endpoint("thrift", 0, "", address, port), _SECONDS)
    actions: list[tuple[str, Callable[[], object]]] = [
        ("list tables", lambda: connection.call("getTableDescriptorsByNamespace", NAMESPACE)),
        ("write a row", lambda: connection.call("putMultiple", table, [put])),
        ("read rows", lambda: connection.call("getScannerResults", table, idl.TScan(b""), 5)),
        ("delete a row", lambda: connection.call("deleteSingle", table, idl.TDelete(row))),
    ]  # fmt: skip
    try:
        for tried, action in actions:
            try:
                yield f"Thrift: {tried}", True, f"done {action()}"
            except Exception as error:  # noqa: BLE001 - other protocols' answers make no sense
                yield f"Thrift: {tried}", False, _line(error)
    finally:
        connection.close()


def riak(address: str, port: int) -> Iterator[Attempt]:
    """He is asked for no name by Riak either; a port that is another service's answers nonsense."""
    from storewise.engines.contract.engine import Endpoint
    from storewise.engines.riak.connection import Connection
    from storewise.engines.riak.messages import pb

    function = {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}
    job = json.dumps({"inputs": [["rna", "x"]], "query": [{"map": function}]}).encode()
    where = {"bucket": b"rna", "key": b"x" + secrets.token_bytes(4)}
    requests = [
        ("write a key", pb.RpbPutReq(**where, content={"value": b"{}"}), pb.RpbPutResp),
        ("read a key", pb.RpbGetReq(**where), pb.RpbGetResp),
        ("delete a key", pb.RpbDelReq(**where), pb.RpbDelResp),
    ]
    for what, request, response in requests:
        link = Connection((Endpoint("riak", 0, "", address, port),), 0, _SECONDS)
        try:
            answer = link.request(request, response)
            yield f"protocol buffers: {what}", True, str(answer)[:60]
        except EngineError as error:
            yield f"protocol buffers: {what}", False, _line(error)
        finally:
            link.close()
    yield _words(address, port, "HTTP: GET /stats", b"GET /stats HTTP/1.0\r\n\r\n")
    head = f"POST /mapred HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(job)}"
    yield _words(address, port, "HTTP: MapReduce", head.encode() + b"\r\n\r\n" + job)
    # Requests of epmd's protocol: a length, then n(ames) or k(ill).
    names = _words(address, port, "epmd: names", b"\0\x01n")
    yield names
    # Before the first node has its name, epmd obeys, and that node cannot start.
    if "name riak" in names[2]:
        yield _words(address, port, "epmd: end it", b"\0\x01k")


def valkey(address: str, port: int) -> Iterator[Attempt]:
    from valkey import Valkey, ValkeyError

    for user, password in [(None, None), ("default", ""), ("default", "default"), *LOGINS]:
        with Valkey(
            host=address, port=port, username=user, password=password, socket_timeout=_SECONDS
        ) as client:
            for command in ("PING", "GET :schema", "CONFIG GET *", "SET x 1", "ACL LIST"):
                tried = f"{command} as {user or 'nobody'}/{password or 'no password'}"
                try:
                    yield tried, True, _line(client.execute_command(*command.split()))
                except (ValkeyError, OSError) as error:
                    yield tried, False, _line(error)


KINDS: dict[str, Callable[[str, int], Iterator[Attempt]]] = {
    "postgres": postgres, "mariadb": mariadb, "mongodb": mongodb, "cassandra": cassandra,
    "hbase": hbase, "riak": riak, "valkey": valkey,
}  # fmt: skip


def _line(error: object) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


class Intruder:
    """His attempts, a thread for each place, and their log."""

    def __init__(self, kind: str, log: TextIO) -> None:
        self.kind, self._log = kind, log
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def note(self, place: str, tried: str, inside: bool, answer: str) -> None:
        entry = {"at": round(time.time(), 3), "place": place, "tried": tried}
        with self._lock:
            self._log.write(json.dumps({**entry, "in": inside, "answer": answer}) + "\n")

    def listen(self, lines: TextIO) -> None:
        known: set[str] = set()
        for line in lines:
            place = line.strip()
            if place in known:
                continue
            known.add(place)
            what, *where = place.split(" ", 1 if place.startswith("unix") else -1)
            action = {"tcp": self.tcp, "unix": self.unix, "process": self.process}[what]
            thread = threading.Thread(target=self._again, args=(action, place, where), daemon=True)
            thread.start()
            self._threads.append(thread)
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def _again(self, action: Callable[..., bool], place: str, where: list[str]) -> None:
        try:
            while not self._ended.is_set() and action(place, *where):
                self._ended.wait(0.02)
        except Exception as error:  # noqa: BLE001 - a test must not pass because he gave up
            self.note(place, "his own program", True, repr(error))

    def tcp(self, place: str, address: str, port: str) -> bool:
        """A refused connection is no attempt: nobody listens yet, or any more."""
        try:
            with socket.socket() as connection:
                connection.settimeout(_SECONDS)
                connection.connect((address, int(port)))
        except OSError:
            return True
        self.note(place, "connect", False, "somebody listens")
        for tried, inside, answer in KINDS[self.kind](address, int(port)):
            self.note(place, tried, inside, answer)
            if self._ended.is_set():
                return False
        return True

    def unix(self, place: str, path: str) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
            except PermissionError as error:
                self.note(place, "connect", False, _line(error))
            except OSError:
                return True
            else:
                self.note(place, "connect", True, "connected")
        return True

    def process(self, place: str, pid: str) -> bool:
        """The command line, which anybody sees: it is in the log to be searched."""
        try:
            with Path(f"/proc/{pid}/cmdline").open("rb") as file:
                self.note(place, "command line", False, file.read().decode(errors="replace"))
        except OSError:
            return False
        return not self._ended.wait(0.2)


def _imports(kind: str) -> None:
    """The drivers may lie where only root can read: they are loaded before."""

    global _SECONDS
    usual, _SECONDS = _SECONDS, 0.05
    for _ in KINDS[kind]("127.0.0.1", 1):
        pass
    _SECONDS = usual


def main() -> None:
    kind, path = sys.argv[1:]
    _imports(kind)
    with Path(path).open("w", buffering=1) as log:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        assert os.getuid() == NOBODY
        print("ready", flush=True)
        Intruder(kind, log).listen(sys.stdin)


if __name__ == "__main__":
    main()
