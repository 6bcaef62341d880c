"""HBase's rows and regions; no server runs here."""

import random
from bisect import bisect
from collections import Counter

import pytest

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.hbase.connection import idl
from storewise.engines.hbase.rows import RowFormat
from storewise.engines.support.splits import split_points
from storewise.engines.support.table import make_tables
from storewise.errors import EngineError


def test_an_update_writes_the_cells_that_it_names():
    tasks = RowFormat(make_tables(Schema())[Kind.TASKS])
    assert tasks.cells({"lib": "x", "t": None}) == {b"lib": b"x", b"t": b"\xff"}


def test_numbers_are_those_of_hbase_s_bytes():
    kind = Kind(
        "numbers", (Field("_id", "key", ""), Field("i", "int", ""), Field("f", "float", ""))
    )
    numbers = RowFormat(make_tables(Schema((kind,)))[kind])
    document = {"_id": b"x", "i": -2, "f": 1.0}
    cells = {b"i": b"\xff" * 7 + b"\xfe", b"f": b"\x3f\xf0" + bytes(6)}
    assert numbers.rows([document]) == {b"x": cells}
    values = [idl.TColumnValue(b"d", name, value) for name, value in cells.items()]
    assert numbers.document(idl.TResult(b"x", values)) == document
    with pytest.raises(EngineError, match="numbers"):
        numbers.rows([{**document, "i": 1 << 63}])


def test_regions_cut_keys_of_text_into_equal_parts():
    users = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
    points, draw = split_points(users, 5), random.Random(5)
    found = Counter(bisect(points, b"user%d" % draw.randrange(1 << 63)) for _ in range(5000))
    assert points == sorted(points) and len(found) == 5
    assert all(850 < number < 1150 for number in found.values())
