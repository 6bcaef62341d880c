"""Making one cluster of Riak's nodes, and asking whether they serve.

Commands and their words: https://docs.riak.com/riak/kv/latest/using/admin/commands/ and
riak_core_console, riak_kv_console in Riak's sources. All nodes join in one plan before any data
is there, because every transition of a cluster moves data.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Forming, Settling
from storewise.engines.riak import protocol as pb
from storewise.engines.riak.config import endpoint_name, node_name
from storewise.engines.riak.protocol import Connection
from storewise.engines.riak.serving import BUCKET, lacking, store_keys
from storewise.engines.riak.settings import Quorums
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

_JOINED = re.compile(r"^join\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
_MEMBER = re.compile(r"^\(?(\w+)\)?\s+[\d.]+%\s+(--|[\d.]+%)\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
#: Waiting does not mend these.
_HOPELESS = ("different ring_creation_size", "cannot join itself", "already a member of a cluster")


def answers(endpoint: Endpoint) -> bool:
    """Whether the node says who it is and looks for a key: it serves soon (`serving`)."""
    try:
        connection = Connection(endpoint, connect=_ANSWER_SECONDS, seconds=_ANSWER_SECONDS)
    except EngineError:
        return False
    try:
        connection.request(pb.frame(pb.PING), pb.PONG)
        name, version = pb.read_server_info(
            connection.request(pb.frame(pb.SERVER_INFO), pb.SERVER_INFO_ANSWER)
        )
        connection.request(pb.get_request(BUCKET, b"any", r=pb.quorum("one")), pb.GET_ANSWER)
        return bool(name and version)
    except EngineError:
        return False
    finally:
        connection.close()


class Joiner:
    """One node's part in making the cluster."""

    def __init__(
        self,
        settling: Settling,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
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
        names = [endpoint_name(peer) for peer in self._settling.endpoints("data")]
        if self._index > 0:
            self._join(names[0])
            return
        if self._nodes > 1:
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
        _until(
            self._settling.check,
            attempt,
            seconds,
            f"{self._name}: {what}",
            clock=self._clock,
            sleep=self._sleep,
        )

    def _said(self, *words: str) -> str:
        """What a command says, also where it ends with an error: a node that does not know the
        others yet refuses what it takes a moment later."""
        try:
            return self._admin(*words)
        except EngineError as error:
            return str(error)

    def _admin(self, *words: str, seconds: float = _COMMAND_SECONDS) -> str:
        return self._settling.run((self._riak, "admin", *words), seconds)


def form(forming: Forming, ring_size: int, quorums: Quorums) -> None:
    """Store a key of each partition, and wait until each node finds all of them."""
    endpoints = forming.endpoints("data")

    def stored() -> tuple[bool, str]:
        try:
            store_keys(endpoints, ring_size, quorums)
        except EngineError as error:
            return False, str(error)
        return True, ""

    def served() -> tuple[bool, str]:
        words = lacking(endpoints, range(len(endpoints)), ring_size, quorums)
        return not words, words

    _until(forming.check, stored, _SERVING_SECONDS, "riak: no key of each partition was stored")
    _until(forming.check, served, _SERVING_SECONDS, "riak: the nodes do not all serve")


def resume(settling: Settling, ring_size: int, quorums: Quorums) -> None:
    """Wait until a node that was started again serves, through each node that can be reached."""
    endpoints, spec = settling.endpoints("data"), settling.node.spec

    def served() -> tuple[bool, str]:
        words = lacking(endpoints, {spec.index}, ring_size, quorums)
        return not words, words

    what = f"{spec.name}: it answers again, and does not serve"
    _until(settling.check, served, _SERVING_SECONDS, what, poll=_RESUME_POLL)


def _until(
    check: Callable[[], None],
    attempt: Callable[[], tuple[bool, str]],
    seconds: float,
    what: str,
    poll: float = _POLL,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    end = clock() + seconds
    while True:
        check()
        done, said = attempt()
        if done:
            return
        if clock() > end:
            raise EngineError(
                f"{what} within {seconds:.0f} s; riak says:\n{said}\nIts log tells why; all nodes "
                "must reach each other on their ports"
            )
        sleep(poll)
