"""HBase: nodes, regions and updates; no server runs here."""

import random
from types import SimpleNamespace

import pytest
from support.servers.samples import sample

from storewise.documents import PARAMS_COLUMN, Field, Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.hbase.connection import Link, Rows, idl
from storewise.engines.hbase.launch import class_path
from storewise.engines.hbase.rows import layout_of, make_layouts
from storewise.engines.support.splits import split_points
from storewise.errors import EngineError


def test_an_update_of_what_another_has_changed_starts_again():
    """Fields without a cell of their own share one, which is the one that must be unchanged."""
    layouts = make_layouts(Schema(), "columns")
    layout, document = layouts[Kind.TASKS], sample(1, alignments=1)[Kind.TASKS][0]
    row = document["_id"]
    old = layout.rows([document])[row]
    new = layout.changed(row, old, {"mp_other": "1"})
    assert list(new) == [layout.guard(new)] == [PARAMS_COLUMN.encode()]
    assert layout.guard(layout.changed(row, old, {"lib": "x"})) == b"t"


def test_records_with_keys_of_their_own_have_a_cell_for_each_field():
    own = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
    chosen = [layout_of(kind, layout) for kind in (own, Kind.RNA) for layout in (None, "json")]
    assert chosen == ["columns", "json", "json", "json"]
    assert make_layouts(Schema((own,)), None)[own].unconditional_update({"field0": "x"}) is not None
    assert make_layouts(Schema(), None)[Kind.RNA].unconditional_update({"b": 1}) is None


def test_a_count_that_fails_leaves_no_scanner_open():
    closed = []

    def fails(scanner, rows):
        raise idl.TIOError(message="region is gone")

    class Gateway(Link):
        def _open(self):
            return SimpleNamespace(
                openScanner=lambda table, scan: 7, getScannerRows=fails, closeScanner=closed.append
            )

    link = Gateway(Endpoint("thrift", 0, "here", "127.0.0.1", 1), 1.0)
    with pytest.raises(EngineError, match="region is gone"):
        Rows(link, "SYNC_WAL").count(b"rna")
    assert closed == [7]


def test_regions_cut_keys_of_text_about_in_halves():
    users = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
    (middle,) = split_points(users, 2)
    draw = random.Random(5)
    below = sum(b"user%d" % draw.randrange(1 << 63) < middle for _ in range(900))
    assert 300 < below < 600


def test_the_class_path_of_a_tarball(tmp_path):
    """Its jars lie in several directories; some must not be there, and one binding is enough."""
    kept = ["hbase-server-2.6.1.jar", "slf4j-reload4j-1.7.36.jar"]
    kept += ["client-facing-thirdparty/slf4j-api-1.7.33.jar", "jdk11/jakarta.jar"]
    left = ["servlet-api-2.5-6.1.14.jar", "client-facing-thirdparty/log4j-slf4j-impl-2.17.2.jar"]
    left += ["shaded-clients/hbase-shaded-client-2.6.1.jar", "ruby/jruby.jar"]
    for name in kept + left:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert class_path(tmp_path, 17).split(":") == [str(tmp_path / name) for name in kept]
    assert "jakarta" not in class_path(tmp_path, 8)
