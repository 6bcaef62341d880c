"""Making one cluster of Riak's nodes, and asking whether they serve.

A node answers clients seconds before its key-value service is up. Until then the other nodes, and
it itself, take stand-ins for its partitions, which hold nothing and say "not found". So one key of
each partition is stored when the cluster is formed, and stays: after a start a node serves when
every node has it for its partitions again, and finds the keys at the level's r.

Commands and their words: https://docs.riak.com/riak/kv/latest/using/admin/commands/ and
riak_core_console, riak_kv_console in Riak's sources. All nodes join in one plan before any data
is there, because every transition of a cluster moves data.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import cache
from itertools import count

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import BootstrapContext, JoinContext
from storewise.engines.riak import protocol as pb
from storewise.engines.riak.launch import endpoint_name, node_name
from storewise.engines.riak.protocol import Broken, Connection
from storewise.engines.riak.ring import partition_of
from storewise.engines.riak.settings import Quorums
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

#: Time for one command, s: each starts an Erlang of its own.
_COMMAND_SECONDS = 90.0
_SERVICE_SECONDS = 180.0
_JOIN_SECONDS = 180.0
#: Until every partition has gone to its owner: 80 s were seen with three nodes and a ring of 16.
_FORM_SECONDS = 600.0
_SERVING_SECONDS = 180.0
_POLL = 0.5
#: Where recovery is timed; it costs no program's start.
_RESUME_POLL = 0.1
_ANSWER_SECONDS = 2.0
#: Of the keys of the partitions.
BUCKET = b"storewise"
_CONNECT_SECONDS = 2.0
_KEY_SECONDS = 10.0

_JOINED = re.compile(r"^join\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
_MEMBER = re.compile(r"^\(?(\w+)\)?\s+[\d.]+%\s+(--|[\d.]+%)\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
#: Permanent errors: do not retry.
_HOPELESS = ("different ring_creation_size", "cannot join itself", "already a member of a cluster")


def not_ready_reason(endpoint: Endpoint) -> str | None:
    """Why the node does not answer ping, server info and a get yet; None if it does."""
    seconds = _ANSWER_SECONDS
    try:
        with closing(Connection(endpoint, connect=seconds, seconds=seconds)) as connection:
            connection.request(pb.frame(pb.PING), pb.PONG)
            info = connection.request(pb.frame(pb.SERVER_INFO), pb.SERVER_INFO_ANSWER)
            connection.request(pb.get_request(BUCKET, b"any", r=pb.quorum("one")), pb.GET_ANSWER)
            return None if all(pb.read_server_info(info)) else "its server info is empty"
    except EngineError as error:
        return str(error)


class Joiner:
    """One node's part in making the cluster."""

    def __init__(
        self,
        context: JoinContext,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._context = context
        node = context.node
        self._name = node.spec.name
        self._riak = str(node.directory / "bin" / "riak")
        self._erlang_name = node_name(node.spec.index, node.address)
        self._nodes = node.topology.nodes
        self._index = node.spec.index

    def join(self) -> None:
        """Wait for the key-value service; join the first node, or make the cluster as it."""
        self._admin("wait-for-service", "riak_kv", self._erlang_name, seconds=_SERVICE_SECONDS)
        names = [endpoint_name(peer) for peer in self._context.endpoints("data")]
        if self._index > 0:
            self._join(names[0])
            return
        if self._nodes > 1:
            self._plan(set(names) - {self._erlang_name})
        self._await_members(set(names))

    def _join(self, first: str) -> None:
        def lacking() -> str | None:
            text = self._output("cluster", "join", first)
            if hopeless := next((words for words in _HOPELESS if words in text), None):
                raise EngineError(f"{self._name}: riak cannot join {first} ({hopeless}): {text}")
            return None if "staged join request" in text else text

        self._until(lacking, _JOIN_SECONDS, f"its joining {first} was not staged")

    def _plan(self, expected: set[str]) -> None:
        """One plan with every other node in it, carried out."""

        def lacking() -> str | None:
            text = self._output("cluster", "plan")
            if set(_JOINED.findall(text)) == expected:
                text = self._output("cluster", "commit")
                return None if "committed" in text else text
            return text

        wanted = ", ".join(sorted(expected))
        self._until(lacking, _JOIN_SECONDS, f"there was no plan with {wanted} to commit")
        self._context.log.info("the plan with %s is committed", wanted)

    def _await_members(self, names: set[str]) -> None:
        def lacking() -> str | None:
            text = self._output("member-status")
            members = _MEMBER.findall(text)
            ready = {name for status, left, name in members if (status, left) == ("valid", "--")}
            if ready == names and len(members) == len(names):
                text = self._output("ringready")
                return None if "TRUE" in text else text
            return text

        self._until(lacking, _FORM_SECONDS, "the partitions did not all reach their owners")

    def _until(self, lacking: Callable[[], str | None], seconds: float, complaint: str) -> None:
        wait_until(
            lacking,
            seconds,
            f"{self._name}: {complaint} (its log tells why; all nodes must reach each other on "
            "their ports)",
            self._context.raise_if_aborted,
            poll=_POLL,
            clock=self._clock,
            sleep=self._sleep,
        )

    def _output(self, *words: str) -> str:
        """What a command prints, also where it ends with an error: a node that does not know the
        others yet refuses what it takes a moment later."""
        try:
            return self._admin(*words)
        except EngineError as error:
            return str(error)

    def _admin(self, *words: str, seconds: float = _COMMAND_SECONDS) -> str:
        return self._context.run((self._riak, "admin", *words), seconds)


def bootstrap(context: BootstrapContext, ring_size: int, quorums: Quorums) -> None:
    """Store a key of each partition, and wait until each node finds all of them."""
    endpoints = context.endpoints("data")

    def unstored() -> str | None:
        try:
            store_keys(endpoints, ring_size, quorums)
        except EngineError as error:
            return str(error)
        return None

    def unserved() -> str | None:
        return lacking(endpoints, range(len(endpoints)), ring_size, quorums)

    complaint = "riak: no key of each partition was stored"
    wait_until(unstored, _SERVING_SECONDS, complaint, context.raise_if_aborted, poll=_POLL)
    complaint = "riak: the nodes do not all serve"
    wait_until(unserved, _SERVING_SECONDS, complaint, context.raise_if_aborted, poll=_POLL)


def wait_recovered(context: JoinContext, ring_size: int, quorums: Quorums) -> None:
    """Wait until a node that was started again serves, through each node that can be reached."""
    endpoints, spec = context.endpoints("data"), context.node.spec

    def unserved() -> str | None:
        return lacking(endpoints, {spec.index}, ring_size, quorums)

    complaint = f"{spec.name}: it answers again, and does not serve"
    wait_until(unserved, _SERVING_SECONDS, complaint, context.raise_if_aborted, poll=_RESUME_POLL)


@cache
def partition_keys(ring_size: int) -> tuple[bytes, ...]:
    """A key of each partition, by its number."""
    keys: dict[int, bytes] = {}
    for number in count():
        key = b"partition%d" % number
        keys.setdefault(partition_of(BUCKET, key, ring_size), key)
        if len(keys) == ring_size:
            break
    return tuple(keys[partition] for partition in range(ring_size))


def store_keys(endpoints: Sequence[Endpoint], ring_size: int, quorums: Quorums) -> None:
    """Store the key of each partition, through all nodes in turn."""
    w, dw = pb.quorum(quorums.w), pb.quorum(quorums.dw)
    keys = partition_keys(ring_size)
    for turn, endpoint in enumerate(endpoints):
        with closing(_connect(endpoint)) as connection:
            for key in keys[turn :: len(endpoints)]:
                connection.request(pb.put_request(BUCKET, key, b"{}", w=w, dw=dw), pb.PUT_ANSWER)


def lacking(
    endpoints: Iterable[Endpoint], needed: Collection[int], ring_size: int, quorums: Quorums
) -> str | None:
    """What keeps the nodes from serving, in words; None where they serve.

    A node that cannot be reached is left out, with the partitions of which it holds a replica,
    unless its index is `needed`.
    """
    away: set[str] = set()
    try:
        with ExitStack() as stack:
            connections = []
            for endpoint in endpoints:
                try:
                    connections.append(stack.enter_context(closing(_connect(endpoint))))
                except Broken:
                    if endpoint.index in needed:
                        raise
                    away.add(endpoint_name(endpoint))
            for connection in connections:
                for partition, key in enumerate(partition_keys(ring_size)):
                    if not (away and away & _holders(connection, key)):
                        _find(connection, partition, key, quorums)
    except EngineError as error:
        return str(error)
    return None


def _connect(endpoint: Endpoint) -> Connection:
    return Connection(endpoint, connect=_CONNECT_SECONDS, seconds=_KEY_SECONDS)


def _holders(connection: Connection, key: bytes) -> set[str]:
    """The nodes whose partitions a key falls to, whether they are up or not."""
    request = pb.frame(pb.PREFERENCE, pb.message((1, BUCKET), (2, key)))
    answer = connection.request(request, pb.PREFERENCE_ANSWER)
    return {holder.node for holder in pb.read_preference(answer)}


def _find(connection: Connection, partition: int, key: bytes, quorums: Quorums) -> None:
    """EngineError where the key is not found, or a holder of it is not there itself (`pr`)."""
    request = pb.get_request(BUCKET, key, r=pb.quorum(quorums.r), pr=pb.quorum("all"))
    if pb.read_get(connection.request(request, pb.GET_ANSWER)) is None:
        raise EngineError(f"{connection.where}: the key of partition {partition} is not found")
