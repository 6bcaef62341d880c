"""Documents for the engine tests: made by a formula, with the shapes of real ones."""

import hashlib
import random
from contextlib import closing

from storewise.documents import KINDS, Kind, fields, make_id
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count
from storewise.engines.contract.server import Credentials
from storewise.engines.registry import engine, engine_names
from storewise.errors import EngineError

#: Engines that are not embedded. By name, so that no driver is imported to collect the tests.
SERVING = {"postgres", "mariadb", "mongodb", "cassandra", "hbase", "riak", "valkey", "sql"}
#: But for the one that answers from input files: it takes no made-up documents.
EMBEDDED = sorted({*engine_names()} - SERVING - {"files"})
STORING = [name for name in EMBEDDED if name != "null"]


def digest_of(seed):
    return hashlib.blake2b(str(seed).encode(), digest_size=16).digest()


def sample(seed, alignments, queries=2, *, study_fields=False):
    """All documents of one made-up file, by kind."""
    digest = digest_of(seed)
    draw = random.Random(seed)
    documents = {kind: [] for kind in KINDS}
    program = {
        "lib": "genes.fa",
        "pg_name": "SSEARCH",
        "pg_ver": "36.3.8i",
        "mp_extrap": "60000 500",
    }
    for ordinal in range(queries):
        key, query = make_id(digest, Kind.TASKS, ordinal), f"query-{seed}-{ordinal}"
        documents[Kind.TASKS].append({"_id": key, "t": 601, "q": query, **program})
    for ordinal in range(alignments):
        ids = {kind: make_id(digest, kind, ordinal) for kind in KINDS}
        task = make_id(digest, Kind.TASKS, ordinal % queries)
        start = draw.randrange(1, 5000)
        length = draw.randrange(10, 60)
        letters = "".join(draw.choices("ACGT-", k=length))
        place = {"b": start, "e": start + length, "l": length, "s": letters, "ti": task}
        documents[Kind.RNA].append({"_id": ids[Kind.RNA], "t": 602, **place})
        documents[Kind.GS].append(
            {"_id": ids[Kind.GS], "t": 603, **place, "seqid": f"gene{ordinal % 7}|é✓"}
        )
        documents[Kind.ALIGN].append(
            {
                "_id": ids[Kind.ALIGN],
                "t": 604,
                "b": draw.uniform(10, 90),
                "e": draw.uniform(0, 1) ** 20,
                "s_w": draw.randrange(1000),
                "f": draw.choice("fr"),
                "i": draw.random(),
                "o": length,
                "p": draw.randrange(1000),
                "si": draw.random(),
                "z": None if ordinal % 5 == 0 else draw.uniform(50, 300),
                "rna": ids[Kind.RNA],
                "gs": ids[Kind.GS],
                "ti": task,
                "q": f"query-{seed}-{ordinal % queries}",
                "gene": None if ordinal % 3 == 0 else f"GENE{ordinal % 4}",
                "chr": f"chr{ordinal % 5}",
            }
        )
    if study_fields:
        for kind in KINDS:
            beyond = {f.name for f in fields(kind) if f.beyond_study}
            for document in documents[kind]:
                for name in beyond:
                    del document[name]
    return documents


class ByDigest:
    """Placement by the digest in an id, as the workflow's shards have it."""

    def __init__(self, stores):
        self.stores = dict(stores)

    def __call__(self, document_id):
        return self.stores[document_id[:7]]


def load(name, directory, documents, schema=None, consistency="durable", batch=50, **settings):
    """Write a store from beginning to end; the cluster of it."""
    cluster = Cluster(name, stores=(directory,), consistency=consistency, settings=settings)
    fill(cluster, documents, schema, batch)
    return cluster


def encoded(name, kind, documents, *, study_fields=False):
    """Documents in the form that an engine wants."""
    encoding = engine(name).encoding
    if encoding == "bson":
        from storewise.ssearch.parse.documents import to_bson

        return [to_bson(document) for document in documents]
    if encoding == "arrow":
        from storewise.ssearch.parse.arrow import batch_of

        return batch_of(kind, documents, study_fields=study_fields)
    return list(documents)


def connect(cluster, mode):
    """A client of the cluster's engine; every engine takes dicts."""
    return engine(cluster.engine).connect(cluster, mode)


def secrets_of(cluster):
    """What its servers let in."""
    assert cluster.credentials is not None
    return Credentials.read(cluster.credentials)


def holds(client, kind, number):
    """Whether the engine counts so many documents; true where its flags say that it cannot."""
    try:
        return client.count(Count(kind)) == number
    except EngineError as error:
        if "its flags say so" not in str(error):
            raise
        return True


def fill(cluster, documents, schema=None, batch=50):
    """Load an empty cluster from beginning to end."""
    with closing(connect(cluster, "write")) as client:
        client.create(schema or Schema())
        for kind, all_of_kind in documents.items():
            for start in range(0, len(all_of_kind), batch):
                client.insert(kind, all_of_kind[start : start + batch])
        client.finish()
