"""Kinds of other workloads in every store: ids that are texts, composite keys, other types."""

import random
from dataclasses import dataclass, replace
from operator import itemgetter

import pytest
from support.servers.samples import connect
from support.servers.stores import SERVERS, STANDIN, Target

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.registry import engine
from storewise.errors import EngineError

USERS = Kind(
    "usertable", (Field("_id", "key", ""), *(Field(f"field{n}", "str", "") for n in range(10)))
)
TYPES = {"m": "int", "s": "int", "bt": "int", "et": "int", "mv": "int", "x": "float", "name": "str"}
MEASURES = Kind(
    "measures",
    (Field("_id", "id", ""), *(Field(name, type_, "") for name, type_ in TYPES.items())),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)
KINDS = (USERS, MEASURES)


def a_measure(m, s, bt, mv, x, name):
    key = {"_id": MEASURES.pack((m, s, bt)), "m": m, "s": s, "bt": bt}
    return {**key, "et": bt + 7, "mv": mv, "x": x, "name": name}


def a_user(key, text="x"):
    return {"_id": key, **{f"field{f}": f"{text}é{f}" * (f % 3) for f in range(10)}}


def _documents():
    draw = random.Random(5)
    numbers = [-1000, -7, 0, 1, 2, 3, 1000, 1 << 60]
    fractions = [-0.3, 0.0, 0.3, 1.5, 2.0, 1e25]
    measures = [
        a_measure(
            draw.choice([0, 1, 3, 255, 256, 65535]),
            draw.randrange(3),
            n if n % 3 else (1 << 40) + n,
            draw.choice([*numbers, n]) if n % 11 else None,
            draw.choice([*fractions, draw.random() * 9]) if n % 7 else None,
            draw.choice(["a", "B", "b", "é", "abc", ""]) if n % 5 else None,
        )
        for n in range(400)
    ]
    # As YCSB has them, and some of other lengths.
    numbers = [
        draw.randrange(1 << (63 if n < 120 else 8 * draw.randrange(1, 7))) for n in range(150)
    ]
    users = [a_user(b"user%d" % (number + n), str(n)) for n, number in enumerate(numbers)]
    users[0]["_id"], users[1]["_id"] = b"u", b"u" * 64
    return {USERS: users, MEASURES: measures}


DOCUMENTS = _documents()
BY_ID = {kind: sorted(found, key=itemgetter("_id")) for kind, found in DOCUMENTS.items()}

SQL = ("sqlite", "duckdb", "chdb", "parquet", "postgres", "mariadb", "sql")
#: 2 "nodes" of an embedded engine are two stores that one reader has open.
TARGETS = [
    *(Target(name, n) for name in ("sqlite", "duckdb", "chdb", "parquet") for n in (0, 2)),
    Target("parquet", 2, (("reader", "pyarrow"),)),
    *SERVERS,
    STANDIN,
]
WRITING = [target for target in TARGETS if target in SERVERS or not target.nodes]


@dataclass
class Store:
    """A store with `DOCUMENTS`; what a test changes is its own."""

    target: Target
    cluster: Cluster
    reader: Client
    writer: Client | None

    @property
    def flags(self):
        return engine(self.target.name).flags

    @property
    def answers(self):
        """Whether conditions are answered: by the store, or from a scan."""
        return self.flags.finds or self.flags.scans

    def some(self, cases):
        return cases if self.flags.finds else cases[:1]

    def refuses(self, *verbs):
        for verb in verbs:
            with pytest.raises(EngineError, match="its flags say so"):
                verb()


def schema_of(name, index_time="after"):
    if not engine(name).flags.secondary_indexes:
        return Schema(kinds=KINDS)
    return Schema(kinds=KINDS, indexes=((MEASURES, "mv"),), index_time=index_time)


def empty(target, clusters, directory):
    if target in SERVERS:
        return replace(clusters.fresh(target), kinds=KINDS)
    return target.embedded(directory / "store", kinds=KINDS)


def filled(cluster, part=slice(None)):
    client = connect(cluster, "write")
    schema = schema_of(cluster.engine)
    client.create(schema)
    for kind, documents in DOCUMENTS.items():
        some = documents[part]
        for start in range(0, len(some), 90):
            client.insert(kind, some[start : start + 90])
    client.create(schema)  # what is there stays
    client.finish()
    return client
