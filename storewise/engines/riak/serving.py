"""Whether a cluster serves: each partition has a key, and all of them are read through a node.

A node answers clients seconds before its key-value service is up. Until then the other nodes, and
it itself, take stand-ins for its partitions, which hold nothing and say "not found". So one key of
each partition is stored when the cluster is formed, and stays: after a start a node serves when
every node has it for its partitions again, and finds the keys at the level's r.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import count

from storewise.engines.contract.engine import Endpoint
from storewise.engines.riak import protocol as pb
from storewise.engines.riak.config import endpoint_name
from storewise.engines.riak.protocol import Broken, Connection
from storewise.engines.riak.ring import partition_of
from storewise.engines.riak.settings import Quorums
from storewise.errors import EngineError

BUCKET = b"storewise"
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 10.0


@cache
def partition_keys(ring_size: int) -> tuple[bytes, ...]:
    """A key of each partition, by its number."""
    found: dict[int, bytes] = {}
    for number in count():
        key = b"partition%d" % number
        found.setdefault(partition_of(BUCKET, key, ring_size), key)
        if len(found) == ring_size:
            break
    return tuple(found[partition] for partition in range(ring_size))


def store_keys(endpoints: Sequence[Endpoint], ring_size: int, quorums: Quorums) -> None:
    """Store the key of each partition, through all nodes in turn."""
    w, dw = pb.quorum(quorums.w), pb.quorum(quorums.dw)
    keys = partition_keys(ring_size)
    for turn, endpoint in enumerate(endpoints):
        connection = _connect(endpoint)
        try:
            for key in keys[turn :: len(endpoints)]:
                connection.request(pb.put_request(BUCKET, key, b"{}", w=w, dw=dw), pb.PUT_ANSWER)
        finally:
            connection.close()


def lacking(
    endpoints: Iterable[Endpoint], needed: Collection[int], ring_size: int, quorums: Quorums
) -> str:
    """What keeps the nodes from serving, in words; nothing where they serve.

    A node that cannot be reached is left out, with the partitions of which it holds a replica,
    unless its index is `needed`.
    """
    connections: list[Connection] = []
    away: set[str] = set()
    try:
        for endpoint in endpoints:
            try:
                connections.append(_connect(endpoint))
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
    finally:
        for connection in connections:
            connection.close()
    return ""


def _connect(endpoint: Endpoint) -> Connection:
    return Connection(endpoint, connect=_CONNECT_SECONDS, seconds=_ANSWER_SECONDS)


def _holders(connection: Connection, key: bytes) -> set[str]:
    """The nodes whose partitions a key falls to, whether they are up or not."""
    request = pb.frame(pb.PREFERENCE, pb.message((1, BUCKET), (2, key)))
    said = connection.request(request, pb.PREFERENCE_ANSWER)
    return {holder.node for holder in pb.read_preference(said)}


def _find(connection: Connection, partition: int, key: bytes, quorums: Quorums) -> None:
    """EngineError where the key is not found, or a holder of it is not there itself (`pr`)."""
    request = pb.get_request(BUCKET, key, r=pb.quorum(quorums.r), pr=pb.quorum("all"))
    if pb.read_get(connection.request(request, pb.GET_ANSWER)) is None:
        raise EngineError(f"{connection.where}: the key of partition {partition} is not found")
