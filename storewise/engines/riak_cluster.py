"""Making one cluster of Riak's nodes, and asking whether they serve.

Commands and their words: https://docs.riak.com/riak/kv/latest/using/admin/commands/ and
riak_core_console, riak_kv_console in Riak's sources. All nodes join in one plan before any data
is there, because every transition of a cluster moves data.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from storewise.engines import riak_pb as pb
from storewise.engines.base import Endpoint
from storewise.engines.riak_conf import endpoint_name, node_name
from storewise.engines.riak_pb import Connection
from storewise.engines.riak_settings import Quorums
from storewise.engines.server import Forming, Settling
from storewise.errors import EngineError

#: Time for one command, s: each starts an Erlang of its own.
_COMMAND_SECONDS = 90.0
_SERVICE_SECONDS = 180.0
_JOIN_SECONDS = 180.0
#: Until every partition has gone to its owner: 80 s were seen with three nodes and a ring of 16.
_FORM_SECONDS = 600.0
_POLL = 0.5
_ANSWER_SECONDS = 2.0
#: A bucket of ours whose one key proves that the cluster takes and gives.
_TRIAL = (b"storewise", b"trial")

_JOINED = re.compile(r"^join\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
_MEMBER = re.compile(r"^\(?(\w+)\)?\s+[\d.]+%\s+(--|[\d.]+%)\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
#: Waiting does not mend these.
_HOPELESS = ("different ring_creation_size", "cannot join itself", "already a member of a cluster")


def answers(endpoint: Endpoint) -> bool:
    """Whether the node says who it is and looks for a key: a ping alone works before it serves."""
    try:
        connection = Connection(endpoint, connect=_ANSWER_SECONDS, seconds=_ANSWER_SECONDS)
    except EngineError:
        return False
    try:
        connection.request(pb.frame(pb.PING), pb.PONG)
        name, version = pb.read_server_info(
            connection.request(pb.frame(pb.SERVER_INFO), pb.SERVER_INFO_ANSWER)
        )
        connection.request(pb.get_request(*_TRIAL, r=pb.quorum("one")), pb.GET_ANSWER)
        return bool(name and version)
    except EngineError:
        return False
    finally:
        connection.close()


class Joiner:
    """One node's part in making the cluster."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        node = settling.node
        self._name = node.spec.name
        self._riak = str(node.directory / "bin" / "riak")
        self._own = node_name(node.spec.index, node.address)
        self._nodes = node.topology.nodes
        self._index = node.spec.index

    def settle(self) -> None:
        """Wait for the key-value service; join the first node, or make the cluster as it."""
        self._admin("wait-for-service", "riak_kv", self._own, seconds=_SERVICE_SECONDS)
        if self._nodes == 1:
            return
        names = [endpoint_name(peer) for peer in self._settling.endpoints("data")]
        if self._index > 0:
            self._join(names[0])
            return
        self._plan(set(names) - {self._own})
        self._await_members(set(names))

    def _join(self, first: str) -> None:
        def joined() -> tuple[bool, str]:
            said = self._said("cluster", "join", first)
            if hopeless := next((text for text in _HOPELESS if text in said), None):
                raise EngineError(f"{self._name}: riak cannot join {first} ({hopeless}): {said}")
            return "staged join request" in said, said

        self._until(joined, _JOIN_SECONDS, f"its joining {first} was not staged")

    def _plan(self, expected: set[str]) -> None:
        """One plan with every other node in it, carried out."""

        def committed() -> tuple[bool, str]:
            said = self._said("cluster", "plan")
            if set(_JOINED.findall(said)) != expected:
                return False, said
            said = self._said("cluster", "commit")
            return "committed" in said, said

        wanted = ", ".join(sorted(expected))
        self._until(committed, _JOIN_SECONDS, f"there was no plan with {wanted} to commit")
        self._settling.log.info("the plan with %s is committed", wanted)

    def _await_members(self, names: set[str]) -> None:
        def formed() -> tuple[bool, str]:
            said = self._said("member-status")
            members = _MEMBER.findall(said)
            ready = {name for status, left, name in members if (status, left) == ("valid", "--")}
            if ready != names or len(members) != len(names):
                return False, said
            said = self._said("ringready")
            return "TRUE" in said, said

        self._until(formed, _FORM_SECONDS, "the partitions did not all reach their owners")

    def _until(self, attempt: Callable[[], tuple[bool, str]], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while True:
            self._settling.check()
            done, said = attempt()
            if done:
                return
            if time.monotonic() > end:
                raise EngineError(
                    f"{self._name}: {what} within {seconds:.0f} s; riak says:\n{said}\nIts log "
                    "tells why; all nodes must reach each other on their ports"
                )
            time.sleep(_POLL)

    def _said(self, *words: str) -> str:
        """What a command says, also where it ends with an error: a node that does not know the
        others yet refuses what it takes a moment later."""
        try:
            return self._admin(*words)
        except EngineError as error:
            return str(error)

    def _admin(self, *words: str, seconds: float = _COMMAND_SECONDS) -> str:
        return self._settling.run((self._riak, "admin", *words), seconds)


def try_cluster(forming: Forming, endpoints: Iterable[Endpoint], quorums: Quorums) -> None:
    """Write, read and delete one key through each node, again and again until it works."""
    for endpoint in endpoints:
        end = time.monotonic() + _COMMAND_SECONDS
        while True:
            forming.check()
            try:
                _trial(endpoint, quorums)
                break
            except EngineError as error:
                if time.monotonic() > end:
                    raise EngineError(
                        f"riak: {endpoint.name} has not stored and given back one key within "
                        f"{_COMMAND_SECONDS:.0f} s after the cluster was made: {error}"
                    ) from error
            time.sleep(_POLL)


def _trial(endpoint: Endpoint, quorums: Quorums) -> None:
    bucket, key = _TRIAL[0], _TRIAL[1] + str(endpoint.index).encode()
    r, w, dw = pb.quorum(quorums.r), pb.quorum(quorums.w), pb.quorum(quorums.dw)
    connection = Connection(endpoint, connect=_ANSWER_SECONDS, seconds=_COMMAND_SECONDS)
    try:
        connection.request(pb.put_request(bucket, key, b"{}", w=w, dw=dw), pb.PUT_ANSWER)
        found = pb.read_get(connection.request(pb.get_request(bucket, key, r=r), pb.GET_ANSWER))
        if found is None:
            raise EngineError(f"{connection.where}: a key that was stored is not there")
        connection.request(
            pb.delete_request(bucket, key, vclock=found.vclock, r=r, w=w, dw=dw), pb.DELETE_ANSWER
        )
    finally:
        connection.close()
