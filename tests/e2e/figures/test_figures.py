"""Figures: they exist for whole and partial studies, say what the tables say, and stay the same."""

from __future__ import annotations

import shutil
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support.results import synthetic
from support.results.made import GROUP, ONE
from support.results.made import Made as MadeStudies

from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.engines.registry import ENGINES
from storewise.figures import captions, costs, rates
from storewise.figures.captions import (
    FIGURES,
    FigureSpec,
    Made,
    make_figures,
    stored_figures,
    warnings_of,
)
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, spaced, spread
from storewise.figures.paper import draw, tick, to_bytes
from storewise.figures.style import DARK, GREY, LOOKS, engine_colour, look

#: Figures of what these studies have not: several nodes, steps, slowed nodes, plans, references,
#: owners in logs.
OF_SERVERS = {"nodes", "busy_nodes"}
OF_OTHERS = {
    *("clients", "latency_over_throughput", "runtime", "plans", "latency_by_node", "slowed_nodes"),
    "published",
}
PART_OF_A_READ = {"capacity", "scaling", "storage", *OF_SERVERS}


pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(paged: Any) -> Tables:
    """Of the study that has a page, with its figures."""
    return cast(Tables, paged.tables)


@pytest.fixture(scope="module")
def drawn(tables: Tables, shown_study: Path) -> tuple[Path, list[Made]]:
    """All figures of the study, and the directory that they were written to."""
    made = stored_figures(tables, shown_study / "figures")
    assert made is not None
    return shown_study / "figures", made


def test_every_figure_is_made_as_png_and_svg(drawn: tuple[Path, list[Made]]) -> None:
    directory, made = drawn
    assert not [one.error for one in made if one.error]
    assert {one.spec.name for one in made if not one.svg} == OF_OTHERS - {"published"}
    for one in (m for m in made if m.svg):
        png = (directory / f"{one.spec.name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        assert width > 900
        assert height > 300
        svg = ElementTree.fromstring((directory / f"{one.spec.name}.svg").read_bytes())
        assert svg.tag.endswith("svg")


def test_files_are_the_same_every_time(tables: Tables, tmp_path: Path) -> None:
    spec = next(s for s in FIGURES if s.name == "storage")
    for name in ("a", "b"):
        chart = spec.make(tables)
        assert chart is not None
        figure = draw(chart)
        assert figure is not None
        (tmp_path / name).write_bytes(to_bytes(figure, "svg"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a").read_bytes()


def test_stored_figures_are_used_only_for_the_same_tables(
    tables: Tables, drawn: tuple[Path, list[Made]], tmp_path: Path
) -> None:
    directory, made = drawn
    assert stored_figures(tables, tmp_path) is None
    assert stored_figures(tables, directory) == made
    other = replace(tables, summary=tables.summary.assign(mean=tables.summary["mean"] * 2))
    assert stored_figures(other, directory) is None
    damaged = shutil.copytree(directory, tmp_path / "damaged")
    (damaged / "latency.svg").unlink()
    assert stored_figures(tables, damaged) is None


def test_throughput_shows_the_means(tables: Tables) -> None:
    chart = rates.throughput(tables)
    assert chart is not None
    figure = draw(chart)
    assert figure is not None
    write = next(a for a in figure.axes if a.get_title().startswith("write"))
    summary = tables.summary[
        (tables.summary["measure"] == "documents_per_s") & (tables.summary["phase"] == "write")
    ]
    # What the engine without a store reaches are ticks beside the rows of the others.
    points = [container.lines[0] for container in write.containers]
    means = [point.get_xdata()[0] for point in points if point.get_marker() != "|"]
    summary = summary[summary["engine"] != "null"]
    assert sorted(means) == pytest.approx(sorted(summary["mean"]))
    read = next(a for a in figure.axes if a.get_title() == "read")
    assert read.get_xscale() == "log"  # from 700 to 400,000 a second
    # Documents per second have one scale.
    assert write.get_xscale() == "log" and write.get_xlim() == read.get_xlim()


def test_what_a_study_has_not_is_no_figure_and_no_error(made: MadeStudies, tmp_path: Path) -> None:
    tables = made.tables(**ONE)
    drawn = make_figures(tables, tmp_path / "figures")
    assert {m.spec.name for m in drawn if not m.svg} == {"scaling", *OF_SERVERS, *OF_OTHERS}
    assert warnings_of(drawn) == []
    assert not (tmp_path / "figures" / "scaling.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "missing"), [("write", {"scaling", *OF_SERVERS}), ("read", PART_OF_A_READ)]
)
def test_one_phase_alone_has_its_figures(tmp_path: Path, phase: str, missing: set[str]) -> None:
    synthetic.make_study(
        tmp_path / "s", engines=["sqlite", "null"], workers=[1], repeats=1, phases=[phase]
    )
    made = make_figures(build_tables(load_results(tmp_path / "s")))
    assert {m.spec.name for m in made if not m.svg} == missing | OF_OTHERS
    assert not any(m.error for m in made)


def test_study_of_failures_has_no_figures(tmp_path: Path) -> None:
    synthetic.make_failed(tmp_path / "s", {"engine": "sqlite"}, 1, "no room")
    made = make_figures(build_tables(load_results(tmp_path / "s")))
    assert all(m.svg is None and not m.error for m in made)


def test_a_figure_that_fails_is_a_warning(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_: Tables) -> None:
        raise ValueError("odd results")

    spec: FigureSpec = replace(FIGURES[0], make=broken)
    monkeypatch.setattr(captions, "FIGURES", (spec,))
    (tmp_path / "throughput.png").write_bytes(b"of an earlier run")
    (made,) = make_figures(tables, tmp_path)
    assert made.svg is None and made.error == "ValueError: odd results"
    (warning,) = warnings_of([made])
    assert warning.code == "figure" and "odd results" in warning.message
    again = stored_figures(tables, tmp_path)
    assert again == [made]
    assert not (tmp_path / "throughput.png").exists()


def test_every_engine_has_its_own_looks() -> None:
    assert set(LOOKS) == set(ENGINES)
    looks = [look(name) for name in ENGINES]
    for part in ("colour", "dark", "marker", "hatch"):
        assert len({getattr(one, part) for one in looks}) == len(ENGINES)
    assert engine_colour("of another version") == GREY
    assert DARK[engine_colour("sqlite")] == engine_colour("sqlite", dark=True)


@pytest.mark.parametrize("dark", [False, True])
def test_no_two_engines_look_alike_to_colour_blind_readers(dark: bool) -> None:
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


def drawn_axes(chart: Chart) -> list[Any]:
    figure = draw(chart)
    assert figure is not None
    return list(figure.axes)


def test_intervals_that_say_nothing_set_no_axis_and_are_hollow(tables: Tables) -> None:
    summary = tables.summary.assign(low=1e-9, high=1e12, resampled="repeats")
    chart = rates.throughput(replace(tables, summary=summary))
    assert chart is not None
    points = [p for panel in chart.panels for one in panel.series for p in one.points if p.source]
    assert points and all(point.unsure and point.ends is None for point in points)
    for axis in drawn_axes(chart):
        assert axis.get_xlim()[1] < 1e7


def test_one_measure_has_one_scale(tables: Tables) -> None:
    chart = rates.latency(tables)
    assert chart is not None
    assert len({axis.get_ylim() for axis in drawn_axes(chart)}) == 1
    sizes = {one.label for panel in chart.panels for one in panel.shown("paper")}
    assert "SQLite, n = 6 k" in sizes


def test_a_percentile_is_drawn_where_ten_operations_lie_above_it(tables: Tables) -> None:
    few = tables.latency_summary.assign(count=999)
    chart = rates.latency(replace(tables, latency_summary=few))
    assert chart is not None
    assert {p.x for panel in chart.panels for one in panel.series for p in one.points} == {2, 10}
    assert rates.latency(replace(tables, latency_summary=few.assign(count=20))) is None


def test_short_phases_are_no_lines(tables: Tables) -> None:
    assert (
        rates.over_time(replace(tables, series=tables.series[tables.series["second"] < 4])) is None
    )


def test_what_stores_nothing_is_a_ceiling_not_a_rate(tables: Tables) -> None:
    chart = rates.throughput(tables)
    assert chart is not None
    names = {one.name for panel in chart.panels for one in panel.series}
    assert "client's ceiling" in names and not any("no store" in name for name in names)
    walls = tables.throughput.assign(value=0.4)
    idle = rates.throughput(replace(tables, throughput=walls))
    assert idle is not None
    assert "client's ceiling" not in {one.name for panel in idle.panels for one in panel.series}


def test_nothing_is_told_of_a_corpus_that_no_judge_told(tables: Tables) -> None:
    curve = tables.judged["capacity_curve"].iloc[:0]
    cost = tables.judged["costs"]
    cost = cost[~cost["measure"].str.startswith("corpus")]
    bare = replace(tables, judged={**tables.judged, "capacity_curve": curve, "costs": cost})
    assert costs.capacity(bare) is None
    chart = costs.costs(bare)
    assert chart is not None
    assert not any("corpus" in panel.title for panel in chart.panels)


def test_labels_are_moved_apart_and_stay_inside() -> None:
    assert spaced([0.1, 0.9], 0.1) == [0.1, 0.9]
    assert spaced([0.5, 0.5], 0.25) == [0.5, 0.75]
    assert spaced([0.9, 1.2], 0.25) == [0.75, 1.0]
    assert sorted(spaced([0.5] * 8, 0.5)) == pytest.approx([i / 8 for i in range(1, 9)])


def test_a_line_that_ends_in_nothing_has_its_name_at_its_last_number() -> None:
    """No operation ended at the higher level: its rate is none, and matplotlib draws no arrow
    there."""
    lines = [
        Series(name, [Point(1.0, 1.0), Point(3.0, y)], record={"engine": name})
        for name, y in (("valkey", float("nan")), ("sqlite", 2.0), ("duckdb", float("nan")))
    ]
    nowhere = Series("parquet", [Point(1.0, float("nan"))], record={"engine": "parquet"})
    chart = Chart([Panel("reads", Axis(), Axis(), [*lines, nowhere])])
    figure = draw(chart)
    assert figure is not None
    assert to_bytes(figure, "png") and to_bytes(figure, "svg")


def test_axis_numbers() -> None:
    assert [tick(v) for v in (0, 0.1, 15, 25_000, 1.5e6)] == ["0", "0.1", "15", "25 k", "1.5 M"]
    assert spread([1, 30])
    assert not spread([10, 30])
    assert not spread([])
