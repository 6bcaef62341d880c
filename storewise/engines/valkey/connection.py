"""Connections to the servers of a cluster: commands to several at once, words of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libvalkey import pack_command
from valkey.connection import Connection
from valkey.exceptions import AuthenticationError, BusyLoadingError, ResponseError, ValkeyError
from valkey.exceptions import ConnectionError as Lost
from valkey.exceptions import TimeoutError as Silence

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError

#: To connect and to log in, s.
_CONNECT_SECONDS = 10.0

#: A command and its arguments.
Command = tuple[bytes | str | int, ...]


class Unreached(EngineError):
    """A server does not answer: it is silent, or reads its data and does not serve yet."""


class Broken(Unreached):
    """A server takes no connection, or has closed the one that there was."""


class Refused(EngineError):
    """A server has answered with an error."""


class _Connection(Connection):
    """Waits for an answer as long as it is told, but for the first ones."""

    def __init__(self, endpoint: Endpoint, user: str, password: str, seconds: float) -> None:
        super().__init__(
            host=endpoint.address,
            port=endpoint.port,
            username=user,
            password=password,
            socket_timeout=_CONNECT_SECONDS,
            # Each costs an exchange, and the server needs neither.
            lib_name=None,
            lib_version=None,
        )
        self._seconds = seconds

    def on_connect(self) -> None:
        super().on_connect()
        assert self._sock is not None
        self._sock.settimeout(self._seconds)

    @property
    def is_open(self) -> bool:
        return self._sock is not None

    def answer(self, command: Command) -> Any:
        self.send_packed_command((pack_command(command),), check_health=False)
        return self.read_response()


class Links:
    """One thread's connections, one to each server, each made when it is first needed."""

    def __init__(
        self, endpoints: Sequence[Endpoint], user: str, password: str, seconds: float
    ) -> None:
        self._endpoints = endpoints
        self._links = [_Connection(e, user, password, seconds) for e in endpoints]

    def close(self) -> None:
        for link in self._links:
            link.disconnect()

    def ask_one(self, server: int, command: Command) -> Any:
        """As `ask`, for one command: nearly all reads are, and nothing is in their way."""
        link = self._links[server]
        kept = link.is_open
        try:
            return link.answer(command)
        except ValkeyError as error:
            failure = self._failure(server, error)
            if not (kept and isinstance(failure, Broken)):
                raise failure from error
        return self.ask(server, command)[0]

    def ask(self, server: int, *commands: Command, again: bool = True) -> list[Any]:
        """The answers of one server, by its number, to commands that are sent at once."""
        return self.ask_all({server: commands}, again=again)[server]

    def ask_all(
        self, requests: Mapping[int, Sequence[Command]], *, again: bool = True
    ) -> dict[int, list[Any]]:
        """The answers of several servers to commands that are sent at once.

        Of a connection that was kept and has broken, as the server was started again, a new one is
        made and all is asked once more; not so without `again`, for what stands on what was asked
        before. EngineError for the first refusal, when all answers have come.
        """
        kept = any(self._links[server].is_open for server in requests)
        try:
            return self._ask_all(requests)
        except Broken:
            if not (kept and again):
                raise
            return self._ask_all(requests)

    def _ask_all(self, requests: Mapping[int, Sequence[Command]]) -> dict[int, list[Any]]:
        answers: dict[int, list[Any]] = {}
        refused: EngineError | None = None
        at = 0
        try:
            for at, commands in requests.items():
                packed = [b"".join(map(pack_command, commands))]
                self._links[at].send_packed_command(packed, check_health=False)
            for at, commands in requests.items():
                link, found = self._links[at], []
                for _ in commands:
                    try:
                        found.append(link.read_response())
                    except ResponseError as error:
                        refused = refused or self._failure(at, error)
                answers[at] = found
        except BaseException as error:
            # Answers that are still to come would be taken for those to later requests.
            for server in requests.keys() - answers.keys():
                self._links[server].disconnect()
            if isinstance(error, ValkeyError):
                raise self._failure(at, error) from error
            raise
        if refused is not None:
            raise refused
        return answers

    def _failure(self, server: int, error: ValkeyError) -> EngineError:
        return _kind(error)(f"valkey: {self._endpoints[server]}: {_words(error)}")


def _kind(error: ValkeyError) -> type[EngineError]:
    if isinstance(error, AuthenticationError):
        return EngineError
    if isinstance(error, BusyLoadingError | Silence):
        return Unreached
    if isinstance(error, Lost):
        return Broken
    return Refused if isinstance(error, ResponseError) else EngineError


def _words(error: ValkeyError) -> str:
    if isinstance(error, AuthenticationError):
        return f"the user or password of this session is refused ({error})"
    words = str(error)
    if isinstance(error, Silence):
        return f"{words}: the server, its host or the network stands still (`timeout_seconds`)"
    if "used memory > 'maxmemory'" in words:
        return (
            f"its memory is full ({words}); give the nodes more (factor `node_memory_mb`, setting "
            "`memory_share`), take more nodes, or store fewer documents"
        )
    return words
