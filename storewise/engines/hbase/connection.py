"""A connection to a gateway: HBase's Thrift 2 server, spoken to with thriftpy2.

``hbase.thrift`` beside this module declares what is used of HBase's own interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TException
from thriftpy2.transport import TCyBufferedTransportFactory

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

Cells = dict[bytes, bytes]
"""Values by qualifier, of the one column family."""

FAMILY = b"d"
NAMESPACE = "default"
#: Rows of one request.
_MAX_ROWS = 2000
_KEYS_ONLY = b"FirstKeyOnlyFilter() AND KeyOnlyFilter()"
#: A value that no cell has: neither UTF-8 nor a number, and not the mark for null.
_NEVER_STORED = b"\xff\xff"
#: Characters of an error message: servers send lists of all their attempts.
_MAX_MESSAGE = 400
#: What a gateway says of a batch of which some server has answered nothing in its time.
_GAVE_UP = "time out before the actionsInProgress changed to zero"

idl: Any = thriftpy2.load(str(files(__package__) / "hbase.thrift"), "storewise_hbase_thrift")
"""The classes of Thrift 2."""


class Connection:
    """One thread's connection to a gateway, opened again at the next call after it broke.

    Each call may take `seconds`. `explain` gives an addition to the error of a failed call.
    EngineError for every failure.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        seconds: float,
        durability: str = "SYNC_WAL",
        explain: Callable[[], str] = lambda: "",
    ) -> None:
        self._endpoint = endpoint
        self._milliseconds = int(seconds * 1000)
        self._durability = getattr(idl.TDurability, durability)
        self._explain = explain
        self._client: Any = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of ``THBaseService``."""
        try:
            if self._client is None:
                self._client = make_client(
                    idl.THBaseService,
                    self._endpoint.address,
                    self._endpoint.port,
                    proto_factory=TCyBinaryProtocolFactory(decode_response=False),
                    trans_factory=TCyBufferedTransportFactory(),
                    timeout=self._milliseconds,
                )
            return getattr(self._client, method)(*arguments)
        except (TException, OSError, EOFError) as error:
            if not isinstance(error, idl.TIOError):
                # The answer may still come: this connection cannot be used for another call.
                self.close()
            message = f"{_error_message(error)}{self._explain()}"
            raise EngineError(f"hbase: {method}: {self._endpoint}: {message}") from error

    def ping(self) -> None:
        """Ask the gateway for its version of Thrift: it needs no other server for that."""
        self.call("getThriftServerType")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    # Rows.

    def _put(self, row: bytes, cells: Cells) -> Any:
        values = [idl.TColumnValue(FAMILY, name, value) for name, value in cells.items()]
        return idl.TPut(row, values, self._durability)

    def put(self, table: bytes, rows: Mapping[bytes, Cells]) -> None:
        """Write the cells of each row."""
        puts = [self._put(row, cells) for row, cells in rows.items()]
        for start in range(0, len(puts), _MAX_ROWS):
            self.call("putMultiple", table, puts[start : start + _MAX_ROWS])

    def get(self, table: bytes, ids: Sequence[bytes]) -> list[Cells | None]:
        """The cells of each row, in the order of the ids; None for a row that is not there."""
        results = self.call("getMultiple", table, [idl.TGet(row) for row in ids])
        return [cells_of(result) if result.row is not None else None for result in results]

    def update(self, table: bytes, row: bytes, present: bytes, cells: Cells) -> bool:
        """Write cells in one request if the row has the cell `present`; returns whether it has."""
        mutations = idl.TRowMutations(row, [idl.TMutation(put=self._put(row, cells))])
        unequal = idl.TCompareOperator.NOT_EQUAL
        done: bool = self.call(
            "checkAndMutate", table, row, FAMILY, present, unequal, _NEVER_STORED, mutations
        )
        return done

    def delete(self, table: bytes, row: bytes) -> bool:
        """Delete what a row has now, by its timestamp; returns whether there was a row.

        A delete without a timestamp would hide a row that is put again in the same millisecond.
        """
        (result,) = self.call("getMultiple", table, [idl.TGet(row)])
        if result.row is None:
            return False
        until = max(cell.timestamp for cell in result.columnValues)
        self.call("deleteSingle", table, idl.TDelete(row, until, self._durability))
        return True

    def scan(
        self, table: bytes, start: bytes, limit: float, *, keys_only: bool = False
    ) -> Iterator[Any]:
        """Up to `limit` rows (``TResult``) from `start`, in the order of keys."""
        only = _KEYS_ONLY if keys_only else None
        while limit > 0:
            number = int(min(limit, _MAX_ROWS))
            scan = idl.TScan(start, number, only)
            results = self.call("getScannerResults", table, scan, number)
            yield from results
            if len(results) < number:
                return
            limit -= number
            start = results[-1].row + b"\0"


def cells_of(result: Any) -> Cells:
    """The cells of a ``TResult``."""
    return {cell.qualifier: cell.value for cell in result.columnValues}


def _error_message(error: BaseException) -> str:
    """What a server or driver says, without the lines of its stack."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    lines = map(str.strip, message.splitlines())
    text = " ".join(line for line in lines if not line.startswith("at "))
    if _GAVE_UP in text:
        return "the servers have not answered the gateway within the setting `operation_seconds`"
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]} ..."
