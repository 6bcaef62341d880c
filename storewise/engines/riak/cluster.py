"""Making one cluster of Riak's nodes, and asking whether they serve.

A node answers clients seconds before its key-value service is up. Until then the other nodes, and
it itself, take stand-ins for its partitions, which hold nothing and say "not found". So one key of
each partition is stored when the cluster is formed, and stays: after a start a node serves when
every node finds these keys, with all their holders there themselves (`pr`).

Commands: https://docs.riak.com/riak/kv/latest/using/admin/commands/. All nodes join in one plan
before any data is there, because every transition of a cluster moves data.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from functools import cache
from itertools import count, product

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import ClusterContext, Node, Run
from storewise.engines.riak.connection import Connection, NoAnswer
from storewise.engines.riak.messages import ALL, pb
from storewise.engines.riak.ring import node_name, partition_of, ring_size
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

#: Time for one command, s: each starts an Erlang of its own.
_COMMAND_SECONDS = 90.0
_JOIN_SECONDS = 180.0
#: Until every partition has gone to its owner: 80 s were seen with three nodes and a ring of 16.
_HANDOFF_SECONDS = 600.0
_SERVING_SECONDS = 180.0
_ANSWER_SECONDS = 10.0
#: Of the keys of the partitions.
BUCKET = b"storewise"

_PLANNED = re.compile(r"^join\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)
_MEMBER = re.compile(r"^\(?(\w+)\)?\s+[\d.]+%\s+(--|[\d.]+%)\s+'?([^'\s]+@[^'\s]+)'?", re.MULTILINE)


def not_ready_reason(endpoint: Endpoint) -> str | None:
    """Why the node does not answer a get yet; None if it does."""

    def check() -> None:
        with _connection(endpoint) as connection:
            connection.request(pb.RpbGetReq(bucket=BUCKET, key=b"any", r=1), pb.RpbGetResp)

    return _reason(check)


def _connection(endpoint: Endpoint) -> closing[Connection]:
    return closing(Connection((endpoint,), 0, _ANSWER_SECONDS))


def _reason(check: Callable[[], None]) -> str | None:
    """The message of a check that fails; None if it does not."""
    try:
        check()
    except EngineError as error:
        return str(error)
    return None


def join(
    node: Node, context: ClusterContext, run: Run, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Join the first node; as the first node, make one cluster of all."""
    index, programs = node.spec.index, node.installation.programs
    names = [node_name(endpoint) for endpoint in context.endpoints("data")]
    nodetool = (str(programs["escript"]), str(programs["riak"].with_name("nodetool")))

    def admin(module: str, function: str, arguments: str = "") -> str:
        """What a command of `riak admin` says, which works in the release's own directory only; so
        the function that it calls. Also where it ends with an error: a node that does not know the
        others yet refuses what it takes a moment later."""
        call = ("-name", names[index], "rpc", module, function, f"[[{arguments}]]")
        try:
            return run((*nodetool, *call), _COMMAND_SECONDS)
        except EngineError as error:
            return str(error)

    def unjoined() -> str | None:
        text = admin("riak_kv_console", "staged_join", f'"{names[0]}"')
        return None if "staged join request" in text else text

    def unplanned() -> str | None:
        text = admin("riak_core_console", "print_staged")
        if set(_PLANNED.findall(text)) == set(names[1:]):
            text = admin("riak_core_console", "commit_staged")
            return None if "committed" in text else text
        return text

    def unsettled() -> str | None:
        text = admin("riak_core_console", "member_status")
        members = [(name, status, pending) for status, pending, name in _MEMBER.findall(text)]
        if sorted(members) == [(name, "valid", "--") for name in sorted(names)]:
            text = admin("riak_kv_console", "ringready")
            return None if "TRUE" in text else text
        return text

    def wait(pending_reason: Callable[[], str | None], seconds: float, complaint: str) -> None:
        complaint = f"data{index}: {complaint} (its log tells why; all nodes must reach each other)"
        wait_until(pending_reason, seconds, complaint, context.raise_if_aborted, sleep=sleep)

    if index > 0:
        wait(unjoined, _JOIN_SECONDS, f"its joining {names[0]} was not staged")
        return
    if len(names) > 1:
        wait(unplanned, _JOIN_SECONDS, f"there was no plan with {', '.join(names[1:])} to commit")
    wait(unsettled, _HANDOFF_SECONDS, "the partitions did not all reach their owners")


def bootstrap(context: ClusterContext) -> None:
    """Store a key of each partition, and wait until each node finds all of them."""
    endpoints = context.endpoints("data")

    def check() -> None:
        store_keys(endpoints)
        check_served(endpoints, range(len(endpoints)))

    complaint = "riak: the nodes do not all serve"
    wait_until(lambda: _reason(check), _SERVING_SECONDS, complaint, context.raise_if_aborted)


def wait_recovered(node: Node, raise_if_aborted: Callable[[], None]) -> None:
    """Wait until a node that was started again serves, through each node that can be reached."""
    spec = node.spec
    wait_until(
        lambda: _reason(lambda: check_served(node.peers, {spec.index})),
        _SERVING_SECONDS,
        f"{spec.name}: it was restarted and answers, but it does not serve all its partitions",
        raise_if_aborted,
        poll=0.1,  # the recovery time ends here
    )


@cache
def partition_keys(size: int) -> tuple[bytes, ...]:
    """A key of each partition of a ring."""
    keys: dict[int, bytes] = {}
    names = (b"partition%d" % number for number in count())
    while len(keys) < size:
        key = next(names)
        keys.setdefault(partition_of(BUCKET, key, size), key)
    return tuple(keys.values())


def store_keys(endpoints: Sequence[Endpoint]) -> None:
    """Store the key of each partition, through all nodes in turn."""
    keys = partition_keys(ring_size(len(endpoints)))
    for turn, endpoint in enumerate(endpoints):
        with _connection(endpoint) as connection:
            for key in keys[turn :: len(endpoints)]:
                put = pb.RpbPutReq(bucket=BUCKET, key=key, content=pb.RpbContent(value=b"{}"))
                connection.request(put, pb.RpbPutResp)


def check_served(endpoints: Sequence[Endpoint], needed: Collection[int]) -> None:
    """Raise EngineError if a node does not find the key of each partition, with all its holders
    there themselves (`pr`).

    A node that cannot be reached is left out, with the partitions of which it holds a replica,
    unless its index is `needed`.
    """
    away: set[str] = set()
    connections = []
    with ExitStack() as stack:
        for endpoint in endpoints:
            connection = stack.enter_context(_connection(endpoint))
            try:
                connection.open()
                connections.append(connection)
            except NoAnswer:
                if endpoint.index in needed:
                    raise
                away.add(node_name(endpoint))
        for connection, key in product(connections, partition_keys(ring_size(len(endpoints)))):
            if not (away and away & _holders(connection, key)):
                get = pb.RpbGetReq(bucket=BUCKET, key=key, pr=ALL)
                if not connection.request(get, pb.RpbGetResp).content:
                    raise EngineError(f"{connection.endpoint}: {key.decode()} is not found")


def _holders(connection: Connection, key: bytes) -> set[str]:
    """The nodes whose partitions a key falls to, whether they are up or not."""
    get = pb.RpbGetBucketKeyPreflistReq(bucket=BUCKET, key=key)
    found = connection.request(get, pb.RpbGetBucketKeyPreflistResp)
    return {holder.node.decode() for holder in found.preflist}
