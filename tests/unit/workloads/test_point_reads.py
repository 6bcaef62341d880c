"""Operations that read single documents."""

from itertools import count, islice, repeat
from types import SimpleNamespace
from typing import cast

from storewise.documents import Kind
from storewise.engines.contract.engine import Client
from storewise.workloads.alignments.point_reads import PointReads
from storewise.workloads.contract import ClientContext


def test_bytes_are_those_of_each_of_the_first_1000_reads_and_then_of_each_16th():
    lengths = count(1)
    client = SimpleNamespace(
        get=lambda kind, key: {"_id": key, "s": "x" * next(lengths), "n": 1, "e": None},
        owner=lambda kind, key: "data0",
    )
    for owner in (True, False):
        flags = SimpleNamespace(owner=owner, stores=True)
        context = SimpleNamespace(engine=SimpleNamespace(flags=flags))
        reads = PointReads(cast(Client, client), cast(ClientContext, context))
        lengths = count(1)
        told = []
        for operation in islice(reads.single_reads(repeat((Kind.RNA, b"0" * 12))), 1040):
            assert (operation.call(), operation.owner) == (1, "data0" if owner else None)
            told.append(operation.bytes if operation.size is None else operation.size())
        exact = [n + 20 for n in range(1, 1041)]
        assert told[:1000] == exact[:1000]
        assert told[1000:1007] == [exact[999]] * 7
        assert told[1007:] == [*[exact[1007]] * 16, *[exact[1023]] * 16, exact[1039]]
