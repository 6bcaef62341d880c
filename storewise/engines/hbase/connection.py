"""A connection to a gateway: HBase's Thrift 2 server, spoken to with thriftpy2.

``hbase.thrift`` beside this module declares what is used of HBase's own interface.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TException
from thriftpy2.transport import TCyBufferedTransportFactory

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

NAMESPACE = "default"
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
        self, endpoint: Endpoint, seconds: float, explain: Callable[[], str] = lambda: ""
    ) -> None:
        self._endpoint, self._seconds, self._explain = endpoint, seconds, explain
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
                    timeout=int(self._seconds * 1000),
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


def _error_message(error: BaseException) -> str:
    """The message of a server or driver, without its stack trace."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    lines = map(str.strip, message.splitlines())
    text = " ".join(line for line in lines if not line.startswith("at "))
    if _GAVE_UP in text:
        return "the servers have not answered the gateway within the setting `operation_seconds`"
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]} ..."
