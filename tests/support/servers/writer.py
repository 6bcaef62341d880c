"""A writing process that the tests kill: loads without end, prints each acknowledged batch."""

import sys
from itertools import count
from pathlib import Path

from storewise.documents import KINDS
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine

# As a program it is not told where the tests are, and finds what lies beside it as top modules:
# `cassandra` is the driver.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.servers.samples import sample

name, consistency, directory = sys.argv[1:]
client = engine(name).connect(
    Cluster(engine=name, stores=(Path(directory),), consistency=consistency), "write"
)
client.create(Schema())
for seed in count():
    documents = sample(seed, alignments=20)
    for kind in KINDS:
        client.insert(kind, documents[kind])
    print(seed, flush=True)
