"""Published studies beside measured values, by hand."""

import math

import pytest
from support.results.references import CSV, YAML

from storewise.analysis.measure import references as ours
from storewise.analysis.measure.points import Point, geometric, levels_of, within
from storewise.study import references as files


def reference(yaml=YAML, csv=CSV):
    return files.parse_reference("nobody2001", yaml, csv)


def point(engine, nodes, value, phase="read", **levels):
    levels = {"engine": engine, "nodes": nodes, "key": "a", **levels}
    return Point(phase, "operations_per_s", value, levels=levels)


def test_published_curves_are_in_our_units():
    one, two = ours.published(reference())
    assert (one.system, two.system) == ("sqlite", "theirs")
    assert dict(one.values) == pytest.approx({1: 200, 2: 100, 4: 50})
    assert dict(two.values) == pytest.approx({1: 20, 2: 40, 4: 80})
    assert one.same == (("key", "a"),) and one.best() == 1


def test_our_curves_stand_beside_them_by_engine_levels_and_setting():
    points = [
        *(point("sqlite", n, v) for n, v in ((1, 8.0), (2, 2.0), (2, 8.0), (3, 1.0))),
        point("sqlite", 1, 99.0, phase="write"),
        *(point("sqlite", 2, 77.0, key="b") for _ in range(2)),
        *(point("mariadb", n, 10.0 * n, threads=t) for n in (1, 2, 4) for t in (1, 2)),
        point("postgres", 1, 5.0),
    ]
    one, two = ours.published(reference())
    (own,) = ours.measured(reference(), one, points)
    # Two repeats at two nodes: their geometric mean.
    assert dict(own.values) == pytest.approx({1: 8, 2: 4, 3: 1})
    others = ours.measured(reference(), two, points)
    # One level of PostgreSQL is no curve; MariaDB counts from two nodes on, one for each setting.
    assert [(c.engine, c.setting) for c in others] == [("mariadb", f"threads {n}") for n in (1, 2)]
    assert dict(others[0].values) == pytest.approx({2: 20, 4: 40})


def test_shapes_and_ratios_by_hand():
    points = [
        *(point("sqlite", n, v) for n, v in ((1, 1000.0), (2, 500.0), (4, 250.0))),
        *(point("mariadb", n, v) for n, v in ((2, 100.0), (4, 100.0))),
    ]
    curves, agreement = ours.compare([reference()], points)
    slopes = agreement[agreement["quantity"] == "slope"]
    one, two = slopes.to_dict("records")
    assert (one["of"], two["of"]) == ("SQLite", "MariaDB (published: theirs)")
    assert (one["measured"], one["published"]) == pytest.approx((-1, -1))
    # One rises, the other is flat.
    assert (two["measured"], two["published"]) == pytest.approx((0, 1))
    assert (one["agree"], two["agree"], two["at"]) == ("yes", "no", "2 to 4")
    # Every curve of a panel counts from the lowest level that all have.
    mine = curves[curves["engine"] == "mariadb"]
    assert mine["base"].to_list() == [2, 2] and mine["relative"].to_list() == pytest.approx([1, 1])
    theirs = curves[(curves["source"] == "published") & (curves["system"] == "theirs")]
    assert theirs["relative"].to_list() == pytest.approx([0.5, 1, 2])
    ratios = agreement[agreement["quantity"] == "ratio"]
    assert set(ratios["of"]) == {"SQLite over MariaDB (published: theirs)"}
    assert ratios["at"].to_list() == ["2", "4", "best of each"]
    assert ratios["published"].to_list() == pytest.approx([100 / 40, 50 / 80, 200 / 80])
    assert ratios["measured"].to_list() == pytest.approx([5, 2.5, 10])
    assert ratios["agree"].to_list() == ["yes", "no", "yes"]
    assert ours.finding(agreement) == [
        "nobody2001: 1 of 2 curves rise, fall or stay as published; "
        "2 of 3 ratios are on the published side of 1"
    ]
    nothing = ours.compare([reference()], [point("duckdb", 1, 1.0), point("sqlite", 1, 1.0)])
    assert all(table.empty for table in nothing) and ours.finding(nothing[1]) == []


def test_the_best_over_what_was_tried():
    text = YAML.replace("same: {key: key}}", "same: {key: key}, over: [rate]}")
    points = [
        *(point("sqlite", 1, v, rate=r) for r, v in ((10, 9.0), (100, 60.0), (100, 15.0))),
        point("sqlite", 2, 8.0, rate=10),
    ]
    one, _ = ours.published(reference(text))
    (own,) = ours.measured(reference(text), one, points)
    # At 100 operations/s two repeats: 30; so 30 is the best, not 60.
    assert dict(own.values) == pytest.approx({1: 30, 2: 8})


def test_slopes_trends_and_sides():
    assert ours.slope({1: 5.0, 10: 50.0}) == pytest.approx(1)
    assert ours.slope({1: 7.0, 2: 7.0, 4: 7.0}) == pytest.approx(0)
    assert math.isnan(ours.slope({1: 5.0})) and math.isnan(ours.slope({0: 1.0, 1: 2.0}))
    assert [ours.trend(s) for s in (0.2, -0.2, 0.05, math.nan)] == ["rises", "falls", "flat", ""]
    assert [ours.side(r) for r in (2, 1.05, 0.95, 0.5)] == [1, 0, 0, -1]
    assert geometric([1, 4]) == pytest.approx(2) and geometric([0, 4]) == 2
    one, two = ours.published(reference())
    assert ours.base_of(one, [one, two]) == 1
    other = ours.Curve("r", one.series, "x", (), {3.0: 1.0, 5.0: 1.0})
    assert ours.base_of(other, [one]) == 3


def test_levels_of_a_step():
    factors = {"engine": "sqlite", "workers": 2, "processes": 3, "threads": 1, "load.rows": 5}
    levels = levels_of(factors, {"threads": 4, "rate": None})
    assert levels["clients"] == 24 and not {"load.rows", "rate"} & set(levels)
    assert levels_of(factors, {"clients": 7})["clients"] == 7
    slowed = levels_of(factors, {"slow": {"how": "disk", "nodes": 1, "names": [], "rate": None}})
    assert slowed["slow"] == "(how disk, nodes 1)"
    assert within(levels, {"workers": {"from": 2, "to": 2}, "engine": ["sqlite", "x"]})
    assert not within(levels, {"workers": {"from": 3}}) and not within(levels, {"none": 1})
