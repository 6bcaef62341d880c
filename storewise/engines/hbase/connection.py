"""The two gateways of HBase: Thrift 2 spoken with thriftpy2, and Thrift 1 with happybase.

Both servers take one call at a time on a connection. ``hbase.thrift`` beside this module declares
what is used of Thrift 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

import happybase
import thriftpy2
from happybase.batch import Mutation
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TSocket, TTransportException
from thriftpy2.transport.buffered import TCyBufferedTransport

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

_Result = TypeVar("_Result")
Cells = dict[bytes, bytes]
"""Values by qualifier, of the one column family."""

FAMILY = b"d"
_KEYS_ONLY = b"FirstKeyOnlyFilter() AND KeyOnlyFilter()"
_CONNECT_MS = 10_000
#: Rows that a scan takes with one call.
_ROWS = 2000
#: A value that no cell has: neither UTF-8 nor a number, and not the mark for null.
_NEVER_STORED = b"\xff\xff"
_WORDS = 400

idl: Any = thriftpy2.load(str(files(__package__) / "hbase.thrift"), "storewise_hbase_thrift")
"""The classes of Thrift 2."""

#: What the drivers raise, and Python for values that they cannot send.
_FAILURES = (TException, OSError, EOFError, ValueError, TypeError, OverflowError)

#: Errors that are a server's answer, so that the connection is as it should be.
_ANSWERS = ("TIOError", "TIllegalArgument", "IOError", "IllegalArgument")
#: A gateway's words for a batch of which some server has answered nothing in its time.
_GAVE_UP = "time out before the actionsInProgress changed to zero"


def _words(error: BaseException) -> str:
    """What a server or driver says, without the lines of its stack."""
    if isinstance(error, TTransportException) and error.type == TTransportException.END_OF_FILE:
        return "the gateway has ended the connection"
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    lines = map(str.strip, message.splitlines())
    text = " ".join(line for line in lines if not line.startswith("at "))
    if _GAVE_UP in text:
        text = "the servers have not answered the gateway within the setting `operation_seconds`"
    return text if len(text) <= _WORDS else f"{text[:_WORDS]} ..."


class Link:
    """A connection to one gateway, made at its first call and again after it broke.

    A call may take so many seconds; `explain` says more of what a gateway complains of.
    """

    def __init__(
        self, endpoint: Endpoint, seconds: float, explain: Callable[[], str] = lambda: ""
    ) -> None:
        self.endpoint = endpoint
        self._explain = explain
        self._milliseconds = int(seconds * 1000)
        self._client: Any = None
        self._closed = False

    def _open(self) -> Any:
        """The client of a new connection."""
        socket = TSocket(
            self.endpoint.address,
            self.endpoint.port,
            socket_timeout=self._milliseconds,
            connect_timeout=_CONNECT_MS,
        )
        transport = TCyBufferedTransport(socket)
        transport.open()
        return TClient(idl.THBaseService, TCyBinaryProtocol(transport, decode_response=False))

    def call(self, verb: str, action: Callable[[Any], _Result]) -> _Result:
        """What `action` does with the client; EngineError in the store's own words."""
        try:
            return action(self.client(verb))
        except _FAILURES as error:
            raise self._failure(verb, error) from error

    def client(self, verb: str) -> Any:
        if self._closed:
            raise EngineError(f"hbase: {verb}: this client is closed")
        if self._client is None:
            self._client = self._open()
        return self._client

    @contextmanager
    def words(self, verb: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._failure(verb, error) from error

    def _failure(self, verb: str, error: BaseException) -> EngineError:
        if type(error).__name__ not in _ANSWERS:
            # Its answer may still come: the connection cannot be used for another call.
            self._drop()
        return EngineError(f"hbase: {verb}: {self.endpoint}: {_words(error)}{self._explain()}")

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close(self) -> None:
        self._closed = True
        self._drop()


class HappybaseLink(Link):
    """A connection of happybase."""

    def _open(self) -> happybase.Connection:
        connection = happybase.Connection(
            self.endpoint.address, self.endpoint.port, timeout=self._milliseconds, autoconnect=False
        )
        connection.open()
        return connection


class Rows:
    """Rows of tables by way of one gateway, of Thrift 2; not for several threads at once."""

    def __init__(self, link: Link, durability: str) -> None:
        self.link = link
        self._durability = getattr(idl.TDurability, durability)

    def _put(self, row: bytes, cells: Cells) -> Any:
        column = idl.TColumnValue
        values = [column(FAMILY, name, value) for name, value in cells.items()]
        return idl.TPut(row, values, self._durability)

    def put(self, table: bytes, rows: Mapping[bytes, Cells]) -> None:
        """Write the cells of each row."""
        puts = [self._put(row, cells) for row, cells in rows.items()]
        self.link.call("insert", lambda client: client.putMultiple(table, puts))

    def get(self, table: bytes, ids: Sequence[bytes]) -> list[Cells | None]:
        """The cells of each row, in the order of the ids; None for a row that is not there."""
        gets = [idl.TGet(row) for row in ids]
        results = self.link.call("get", lambda client: client.getMultiple(table, gets))
        return [_cells(result) if result.row is not None else None for result in results]

    def written(self, table: bytes, row: bytes) -> int | None:
        """When a row was last written, as the server counts; None where there is none."""
        gets = [idl.TGet(row)]
        (result,) = self.link.call("get", lambda client: client.getMultiple(table, gets))
        return max((cell.timestamp for cell in result.columnValues), default=None)

    def replace(
        self, table: bytes, row: bytes, qualifier: bytes, expected: bytes, cells: Cells
    ) -> bool:
        """Write cells if the row's cell `qualifier` has the value `expected`; returns whether it
        had."""
        put = self._put(row, cells)
        return bool(
            self.link.call(
                "update",
                lambda client: client.checkAndPut(table, row, FAMILY, qualifier, expected, put),
            )
        )

    def update_existing(self, table: bytes, row: bytes, there: bytes, cells: Cells) -> bool | None:
        """Write cells in one request if the row has the cell `there`; returns whether it has. None
        if the gateway has no such request."""
        mutations = idl.TRowMutations(row, [idl.TMutation(put=self._put(row, cells))])
        unequal = idl.TCompareOperator.NOT_EQUAL
        return bool(
            self.link.call(
                "update",
                lambda client: client.checkAndMutate(
                    table, row, FAMILY, there, unequal, _NEVER_STORED, mutations
                ),
            )
        )

    def delete(self, table: bytes, row: bytes, until: int) -> None:
        """Delete what was written to a row until then."""
        gone = idl.TDelete(row, until, self._durability)
        self.link.call("delete", lambda client: client.deleteSingle(table, gone))

    def scan(self, table: bytes, start: bytes, limit: int) -> list[tuple[bytes, Cells]]:
        """Up to `limit` rows from `start`, in the order of keys."""

        def scan(client: Any) -> list[tuple[bytes, Cells]]:
            rows: list[tuple[bytes, Cells]] = []
            first = start
            while len(rows) < limit:
                number = min(limit - len(rows), _ROWS)
                results = client.getScannerResults(table, idl.TScan(first, number), number)
                rows += [(result.row, _cells(result)) for result in results]
                if len(results) < number:
                    break
                first = rows[-1][0] + b"\0"
            return rows

        return self.link.call("scan", scan)

    def count(self, table: bytes) -> int:
        """Number of rows."""

        def count(client: Any) -> int:
            total = 0
            scanner = client.openScanner(table, idl.TScan(b"", _ROWS, _KEYS_ONLY))
            try:
                while results := client.getScannerRows(scanner, _ROWS):
                    total += len(results)
            except (idl.TIOError, idl.TIllegalArgument):
                # The gateway would keep the scanner open.
                client.closeScanner(scanner)
                raise
            client.closeScanner(scanner)
            return total

        return self.link.call("count", count)


def _cells(result: Any) -> Cells:
    return {cell.qualifier: cell.value for cell in result.columnValues}


class HappybaseRows(Rows):
    """Rows by way of Thrift 1 and happybase."""

    def __init__(self, link: HappybaseLink, durability: str) -> None:
        super().__init__(link, durability)
        self._wal = durability != "SKIP_WAL"

    def put(self, table: bytes, rows: Mapping[bytes, Cells]) -> None:
        def put(connection: Any) -> None:
            with connection.table(table).batch(wal=self._wal) as batch:
                for row, cells in rows.items():
                    batch.put(row, _named(cells))

        self.link.call("insert", put)

    def get(self, table: bytes, ids: Sequence[bytes]) -> list[Cells | None]:
        if len(ids) == 1:
            row = self.link.call("get", lambda c: c.table(table).row(ids[0]))
            return [_plain(row) or None]
        pairs = self.link.call("get", lambda c: c.table(table).rows(ids))
        known = {row: _plain(cells) for row, cells in pairs}
        return [known.get(row) for row in ids]

    def written(self, table: bytes, row: bytes) -> int | None:
        cells = self.link.call("get", lambda c: c.table(table).row(row, include_timestamp=True))
        return max((when for _, when in cells.values()), default=None)

    def update_existing(self, table: bytes, row: bytes, there: bytes, cells: Cells) -> None:
        """Not possible: Thrift 1 can only compare a cell with one value."""

    def replace(
        self, table: bytes, row: bytes, qualifier: bytes, expected: bytes, cells: Cells
    ) -> bool:
        def replace(connection: Any) -> bool:
            # What happybase has no method for; Thrift 1 writes one cell with each call.
            done = True
            for name, value in cells.items():
                mutation = Mutation(column=_column(name), value=value, writeToWAL=self._wal)
                done = done and connection.client.checkAndPut(
                    table, row, _column(qualifier), expected, mutation, {}
                )
            return done

        return self.link.call("update", replace)

    def delete(self, table: bytes, row: bytes, until: int) -> None:
        self.link.call(
            "delete", lambda c: c.table(table).delete(row, timestamp=until, wal=self._wal)
        )

    def scan(self, table: bytes, start: bytes, limit: int) -> list[tuple[bytes, Cells]]:
        size = min(limit, _ROWS)

        def scan(connection: Any) -> list[tuple[bytes, Cells]]:
            rows = connection.table(table).scan(
                row_start=start or None, limit=limit, batch_size=size
            )
            return [(row, _plain(cells)) for row, cells in rows]

        return self.link.call("scan", scan)

    def count(self, table: bytes) -> int:
        return self.link.call(
            "count",
            lambda c: sum(1 for _ in c.table(table).scan(filter=_KEYS_ONLY, batch_size=_ROWS)),
        )


def _column(name: bytes) -> bytes:
    return FAMILY + b":" + name


def _named(cells: Cells) -> Cells:
    return {_column(name): value for name, value in cells.items()}


def _plain(cells: Mapping[bytes, bytes]) -> Cells:
    return {name[len(FAMILY) + 1 :]: value for name, value in cells.items()}
