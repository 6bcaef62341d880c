"""Which nodes a slowing means, and when a crash comes."""

import pytest
from pydantic import ValidationError

from storewise.errors import EngineError
from storewise.session.faults.orders import Orders
from storewise.workloads.faults import Crash, Slow

DATA = ("data",)


def test_the_nodes_of_a_slowing_are_data_nodes():
    known = ("data0", "data1", "config0")
    hbase = ("thrift0", "zookeeper0", "master0", "regionserver0", "regionserver1")
    of_hbase = ("regionserver", "master")
    for given, nodes, roles, chosen in (
        ({}, known, DATA, ("data0",)),
        ({"nodes": 0}, known, DATA, ()),
        ({"names": ("config0",)}, known, DATA, ("config0",)),
        ({}, hbase, of_hbase, ("regionserver0",)),
        ({}, ("thrift0", "master0"), of_hbase, ("master0",)),
    ):
        assert Slow(how="cpu", **given).chosen(nodes, roles) == chosen
    for given, words in (({"nodes": 3}, "has 2: data0, data1"), ({"names": ("x",)}, "no node x")):
        with pytest.raises(ValueError, match=words):
            Slow(how="cpu", **given).chosen(known, DATA)


def test_a_crash_is_drawn_from_the_seed():
    known = ("data0", "data1", "data2", "config0")
    crash = Crash(node="random", after=(1.0, 3.0))
    drawn = {crash.drawn(known, DATA, seed, 0) for seed in range(50)}
    assert {node for node, _ in drawn} == {"data0", "data1", "data2"}
    assert all(1.0 <= moment <= 3.0 for _, moment in drawn)
    assert crash.drawn(known, DATA, 7, 1) == crash.drawn(known, DATA, 7, 1)
    assert Crash(after=0.5).drawn(known, DATA, 1, 0) == ("data0", 0.5)
    with pytest.raises(ValueError, match="no node 'data7'"):
        Crash(node="data7", after=1).drawn(known, DATA, 1, 0)
    with pytest.raises(ValidationError, match="that rises"):
        Crash(after=(3.0, 1.0))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"how": "disk", "processes": 5}, "processes belongs to `how: cpu`"),
        ({"how": "cpu", "nodes": 2, "names": ["data0"]}, "either nodes"),
        ({"how": "heat"}, "'disk' or 'cpu'"),
    ],
)
def test_a_slowing_that_makes_no_sense_is_refused(values, words):
    with pytest.raises(ValidationError, match=words):
        Slow.model_validate(values)


def test_orders_for_nobody_are_refused(tmp_path):
    with pytest.raises(EngineError, match="sqlite has no servers"):
        Orders(tmp_path, engine="sqlite").restart()
