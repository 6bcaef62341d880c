"""Figures: they exist for whole and partial studies, say what the tables say, and stay the same."""

import re
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, ONE

from storewise.analysis.model.tables import Tables
from storewise.engines.registry import ENGINES
from storewise.figures import make, rates
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.drawing import draw
from storewise.figures.make import FIGURES, make_figures, warnings_of
from storewise.figures.style import look

#: Figures of what these studies have not: steps, plans, owners in logs.
OF_OTHERS = {"latency_over_throughput", "plans", "latency_by_node"}
SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(paged):
    """Of the study that has a page, with its figures."""
    return cast(Tables, paged.tables)


def test_every_figure_is_made_as_png_and_svg(shown_study):
    directory = shown_study / "figures"
    made = {path.stem for path in directory.glob("*.svg")} - {"verdict"}
    assert made == set(FIGURES) - OF_OTHERS
    for name in made:
        png = (directory / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        assert width > 600 and height > 100
        svg = ElementTree.fromstring((directory / f"{name}.svg").read_bytes())
        ids = [one.get("id") for one in svg.iter() if one.get("id")]
        assert len(ids) == len(set(ids))


def test_the_page_takes_a_picture_in_parts(tables):
    picture = draw(rates.latency(tables), "latency")
    whole = ElementTree.fromstring(picture.svg)
    wide, high = (float(number) for number in whole.get("viewBox").split()[2:])
    legend, *panels = map(ElementTree.fromstring, picture.parts)
    assert "DuckDB, 2 workers" in [one.text for one in legend.iter(f"{SVG}text")]
    assert len(panels) == 2
    for one in panels:
        x, y, *size = (float(number) for number in one.get("viewBox").split())
        assert size == [float(one.get("width")), float(one.get("height"))]
        assert x + size[0] <= wide + 0.1 and y + size[1] <= high + 0.1
    # What they share is defined once.
    ids = [at.get("id") for one in (legend, *panels) for at in one.iter() if at.get("id")]
    assert len(ids) == len(set(ids))
    used = {at.get(HREF)[1:] for one in panels for at in one.iter(f"{SVG}use")}
    assert used and used <= set(ids)


def test_throughput_says_and_shows_the_means(tables):
    chart = rates.throughput(tables)
    write, _ = chart.panels
    summary = tables.summary.query("measure == 'documents_per_s' and phase == 'write'")
    points = [one.points[0] for one in write.series]
    # What the engine without a store reaches is the client's ceiling.
    assert "client's ceiling, 2 workers" in write.rows
    assert sorted(point.x for point in points) == pytest.approx(sorted(summary["mean"]))
    picture = draw(chart, "throughput")
    marks = ElementTree.fromstring(picture.parts[1]).iter(f"{SVG}a")
    told = {mark.get("data-source"): mark.find(f"{SVG}title").text for mark in marks}
    for point in points:
        assert point.words in told[point.source]
        assert "95 % interval" in point.words and "n = 2" in point.words
    assert draw(chart, "throughput") == picture


def test_a_percentile_is_drawn_where_ten_operations_lie_above_it(tables):
    told = tables.measures[tables.measures["measure"] == "service_p99"]
    assert len(told) and (told["count"] >= 1000).all()
    few = tables.summary[tables.summary["measure"].isin(["service_p50", "service_p90"])]
    chart = rates.latency(replace(tables, summary=few))
    assert {p.x for panel in chart.panels for one in panel.series for p in one.points} == {2, 10}


def test_what_a_study_has_not_is_no_figure_and_no_error(made, tmp_path):
    drawn = make_figures(made.tables(**ONE), tmp_path)
    missing = {"scaling", "published", *OF_OTHERS}
    assert {m.name for m in drawn if not m.picture} == missing
    assert warnings_of(drawn) == []
    assert not (tmp_path / "scaling.png").exists()


def test_a_figure_that_fails_is_a_warning(tables, monkeypatch, tmp_path):
    def broken(_):
        raise ValueError("odd results")

    monkeypatch.setattr(make, "FIGURES", {"throughput": broken})
    (tmp_path / "throughput.png").write_bytes(b"of an earlier run")
    (made,) = make_figures(tables, tmp_path)
    assert not made.picture and made.error == "ValueError: odd results"
    (warning,) = warnings_of([made])
    assert warning.code == "figure" and "odd results" in warning.message
    assert not (tmp_path / "throughput.png").exists()


def charted(tables, name, **frames):
    """The panels of a figure from other tables, as title -> lines by name, with their points."""
    chart = FIGURES[name](replace(tables, **frames))
    assert draw(chart, name)
    return {
        panel.title: {one.name: [(p.x, p.y, p.hollow) for p in one.points] for one in panel.series}
        for panel in chart.panels
    }


def test_figures_of_steps(tables):
    rates = tables.rates.query("phase == 'read' and measure == 'operations_per_s' and workers == 1")
    (row,) = rates[rates["engine"] == "sqlite"].to_dict("records")
    rows = []
    for step, clients in enumerate((4, 1, 2)):
        done = {**row, "step": step, "clients": clients, "other": "", "mean": 100.0 * clients}
        rows.append(done)
        for measure, mean in (("response_mean", 1e-3 * clients), ("response_p99", 5e-3 * clients)):
            rows.append({**done, "operation": "get", "measure": measure, "mean": mean})
    # So few operations tell no 99th percentile.
    rows = [row for row in rows if (row["measure"], row["step"]) != ("response_p99", 1)]
    summary = pd.DataFrame(rows)
    assert charted(tables, "scaling", summary=summary) == {
        "read, over client threads": {"SQLite": [(1, 100, False), (2, 200, False), (4, 400, False)]}
    }
    times = charted(tables, "latency_over_throughput", summary=summary)["read: get"]
    assert times["SQLite"] == [(100, 1, False), (200, 2, False), (400, 4, False)]
    assert times["SQLite: p99"] == [(200, 10, False), (400, 20, False)]


def test_figures_of_plans_and_nodes(tables):
    trial = tables.trials.query("engine == 'postgres' and nodes == 2").iloc[0]
    plans = [
        {"trial": trial["trial"], "query": "q2", "selectivity_pct": share}
        | {"seconds": time, "uses_index": used}
        for share, time, used in ((10.0, 2.0, False), (0.1, 0.5, True))
    ]
    assert charted(tables, "plans", plans=pd.DataFrame(plans)) == {
        "q2": {"PostgreSQL": [(0.1, 0.5, False), (10, 2, True)]}
    }
    step = {"trial": trial["trial"], "phase": "read", "operation": "get"}
    nodes = [
        {**step, "step": slow, "slowed_nodes": slow, "node": node, "slowed": is_slow}
        for slow, node, is_slow in ((0, "data0", ""), (0, "data1", ""), (1, "data1", "cpu"))
    ]
    kinds = dict.fromkeys(("cpu_user", "cpu_system", "cpu_iowait"), 20.0)
    times = {"service_p50": 1e-3, "service_mean": 2e-3, "service_p95": 4e-3}
    per_node = pd.DataFrame(nodes).assign(engine="postgres", **times, **kinds)
    drawn = charted(tables, "latency_by_node", per_node=per_node.drop(columns="engine"))
    assert drawn["PostgreSQL, read: get"]["95th percentile"] == [
        *((4.0, "data0", False), (4.0, "data1", False))
    ]
    assert set(drawn["PostgreSQL, read: hosts"]) == {"user", "system", "iowait"}
    (alone,) = drawn["PostgreSQL, read, 1 slowed: get"]["median"]
    assert alone == (1.0, "data1 (slowed)", False)
    step["operation"] = "all"
    slow = [
        {**trial, **step, "step": n, "measure": measure, "mean": 9.0 - n, "other": other}
        for n, how in enumerate(("0 slowed", "1 slowed: cpu"))
        for measure, other in (("operations_per_s", None), ("slowed_rate", how))
    ]
    frame = pd.DataFrame(slow).assign(
        low=1.0, high=9.0, n=2, rate=np.nan, clients=1.0, planned=np.nan
    )
    drawn = charted(tables, "scaling", summary=frame)
    assert drawn["read, cpu, over slowed nodes"] == {"PostgreSQL": [(0, 9, False), (1, 8, False)]}


@pytest.mark.parametrize("dark", [False, True])
def test_no_two_engines_look_alike_to_colour_blind_readers(dark):
    # Machado, Oliveira & Fernandes 2009: severity 1 of protan-, deuter- and tritanopia.
    cones = np.array(
        [
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
            [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
            [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
        ]
    )
    texts = [look(name).dark if dark else look(name).colour for name in ENGINES]
    rgb = np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in texts])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_lms = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.63]])
    to_lab = np.array(
        [[0.2105, 0.7936, -0.0041], [1.978, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    )
    for seen in cones:
        lab = np.cbrt(np.clip(linear @ seen.T, 0, 1) @ to_lms.T) @ to_lab.T
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + 9 * np.eye(len(texts))
        # A just noticeable difference of Oklab is about 0.02.
        assert apart.min() > 0.04


def test_intervals_that_say_nothing_set_no_axis_and_are_hollow(tables):
    summary = tables.summary.assign(low=1e-9, high=1e12)
    chart = rates.throughput(replace(tables, summary=summary))
    points = [p for panel in chart.panels for one in panel.series for p in one.points if p.source]
    assert points and all(point.unsure and point.ends is None for point in points)
    assert not any(" G" in text for text in ticks(draw(chart, "throughput").parts[1]))


def ticks(part):
    """The texts of a panel."""
    return [one.text for one in ElementTree.fromstring(part).iter(f"{SVG}text")]


def test_panels_of_one_measure_have_one_scale():
    panels = [
        Panel("t", Axis("s"), Axis(), [Series("a", [Point(value, "a")], "markers")], ["a"])
        for value in (1.0, 900.0)
    ]
    _, *parts = draw(Chart([*panels, replace(panels[0], x=Axis("h"))]), "t").parts
    one, other, alone = map(ticks, parts)
    assert one == other and {"1", "10", "100", "s (log)"} <= set(one)
    assert "s (log)" not in alone and "10" not in alone


@pytest.mark.parametrize("mode", ["markers", "bars"])
def test_a_whisker_is_never_cut(mode):
    row = [Series("a", [Point(10.0, "a", 2.0, 19.0)], mode), Series("b", [Point(9.0, "b")], mode)]
    panel = draw(Chart([Panel("t", Axis("s"), Axis(), row, ["a", "b"])]), "t").parts[1]
    svg = ElementTree.fromstring(panel)
    frame = next(one for one in svg.iter(f"{SVG}path") if "fill: #ffffff" in one.get("style"))
    inside = [one.get("d") for one in svg.iter(f"{SVG}path") if one.get("clip-path")]
    ends = [float(x) for way in inside for x in re.findall(r"[ML] (\S+)", way)]
    edges = [float(x) for x in re.findall(r"[ML] (\S+)", frame.get("d"))]
    assert ends and max(ends) <= max(edges) + 0.1


def test_values_that_are_no_numbers_are_left_out():
    lines = [
        Series(name, [Point(1.0, 1.0), Point(3.0, y)], engine=name)
        for name, y in (("valkey", float("nan")), ("sqlite", 2.0), ("parquet", float("nan")))
    ]
    picture = draw(Chart([Panel("reads", Axis(), Axis(), lines)]), "reads")
    assert picture.png and "nan" not in picture.svg
