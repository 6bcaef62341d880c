"""Figures: they exist for whole and partial studies, say what the tables say, and stay the same."""

import shutil
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from support.results.made import GROUP, ONE

from storewise.analysis.model.tables import Tables
from storewise.engines.registry import ENGINES
from storewise.figures import captions, rates
from storewise.figures.captions import FIGURES, make_figures, stored_figures, warnings_of
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.paper import draw, to_bytes
from storewise.figures.style import engine_colour

#: Figures of what these studies have not: several nodes, steps, slowed nodes, plans, references,
#: owners in logs.
OF_SERVERS = {"nodes", "busy_nodes"}
OF_OTHERS = {
    *("clients", "latency_over_throughput", "runtime", "plans", "latency_by_node", "slowed_nodes")
}


pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(paged):
    """Of the study that has a page, with its figures."""
    return cast(Tables, paged.tables)


@pytest.fixture(scope="module")
def drawn(tables, shown_study):
    """All figures of the study, and the directory that they were written to."""
    return shown_study / "figures", stored_figures(tables, shown_study / "figures")


def test_every_figure_is_made_as_png_and_svg(drawn):
    directory, made = drawn
    assert not [one.error for one in made if one.error]
    assert {one.spec.name for one in made if not one.svg} == OF_OTHERS
    for one in (m for m in made if m.svg):
        png = (directory / f"{one.spec.name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        assert width > 900 and height > 300
        svg = ElementTree.fromstring((directory / f"{one.spec.name}.svg").read_bytes())
        assert svg.tag.endswith("svg")


def test_stored_figures_are_used_only_for_the_same_tables(tables, drawn, tmp_path):
    directory, made = drawn
    assert stored_figures(tables, tmp_path) is None
    assert stored_figures(tables, directory) == made
    other = replace(tables, summary=tables.summary.assign(mean=tables.summary["mean"] * 2))
    assert stored_figures(other, directory) is None
    damaged = shutil.copytree(directory, tmp_path / "damaged")
    (damaged / "latency.svg").unlink()
    assert stored_figures(tables, damaged) is None


def test_throughput_shows_the_means(tables):
    figure = draw(rates.throughput(tables))
    write = next(a for a in figure.axes if a.get_title().startswith("write"))
    summary = tables.summary.query("measure == 'documents_per_s' and phase == 'write'")
    # What the engine without a store reaches is a ceiling: ticks beside the rows of the others.
    points = [container.lines[0] for container in write.containers]
    means = [point.get_xdata()[0] for point in points if point.get_marker() != "|"]
    summary = summary[summary["engine"] != "null"]
    assert sorted(means) == pytest.approx(sorted(summary["mean"]))
    read = next(a for a in figure.axes if a.get_title() == "read")
    # Documents per second have one scale.
    assert write.get_xscale() == "log" and write.get_xlim() == read.get_xlim()


def test_a_percentile_is_drawn_where_ten_operations_lie_above_it(tables):
    told = tables.measures[tables.measures["measure"] == "service_p99"]
    assert len(told) and (told["count"] >= 1000).all()
    few = tables.summary[tables.summary["measure"].isin(["service_p50", "service_p90"])]
    chart = rates.latency(replace(tables, summary=few))
    assert {p.x for panel in chart.panels for one in panel.series for p in one.points} == {2, 10}


def test_what_a_study_has_not_is_no_figure_and_no_error(made, tmp_path):
    tables = made.tables(**ONE)
    drawn = make_figures(tables, tmp_path / "figures")
    missing = {"scaling", "published", *OF_SERVERS, *OF_OTHERS}
    assert {m.spec.name for m in drawn if not m.svg} == missing
    assert warnings_of(drawn) == []
    assert not (tmp_path / "figures" / "scaling.png").exists()


def test_a_figure_that_fails_is_a_warning(tables, monkeypatch, tmp_path):
    def broken(_):
        raise ValueError("odd results")

    monkeypatch.setattr(captions, "FIGURES", (replace(FIGURES[0], make=broken),))
    (tmp_path / "throughput.png").write_bytes(b"of an earlier run")
    (made,) = make_figures(tables, tmp_path)
    assert made.svg is None and made.error == "ValueError: odd results"
    (warning,) = warnings_of([made])
    assert warning.code == "figure" and "odd results" in warning.message
    assert stored_figures(tables, tmp_path) == [made]
    assert not (tmp_path / "throughput.png").exists()


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
    texts = [engine_colour(name, dark=dark) for name in ENGINES]
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
    summary = tables.summary.assign(low=1e-9, high=1e12, resampled="repeats")
    chart = rates.throughput(replace(tables, summary=summary))
    points = [p for panel in chart.panels for one in panel.series for p in one.points if p.source]
    assert points and all(point.unsure and point.ends is None for point in points)
    for axis in draw(chart).axes:
        assert axis.get_xlim()[1] < 1e7


def test_the_label_of_a_curve_is_at_its_last_value_that_is_a_number():
    lines = [
        Series(name, [Point(1.0, 1.0), Point(3.0, y)], record={"engine": name})
        for name, y in (("valkey", float("nan")), ("sqlite", 2.0), ("duckdb", float("nan")))
    ]
    nowhere = Series("parquet", [Point(1.0, float("nan"))], record={"engine": "parquet"})
    chart = Chart([Panel("reads", Axis(), Axis(), [*lines, nowhere])])
    figure = draw(chart)
    assert to_bytes(figure, "png") and to_bytes(figure, "svg")
