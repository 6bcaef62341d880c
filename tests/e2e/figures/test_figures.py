"""Figures: they exist for whole and partial studies, say what the tables say, and stay the same."""

from __future__ import annotations

import shutil
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from support.results import synthetic
from support.results.made import Made as MadeStudies

from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.engines.registry import ENGINES
from storewise.figures import captions, rates
from storewise.figures.captions import FIGURES, FigureSpec, Made, make_figures, stored_figures
from storewise.figures.chart import spread
from storewise.figures.paper import draw, tick, to_bytes
from storewise.figures.selection import style_of
from storewise.figures.style import COLOURS, GREY, Style

#: Figures of servers and of published studies: not of every study.
OF_SERVERS = {"nodes", "busy_nodes", "published"}
PART_OF_A_READ = {"capacity", "scaling", "storage", *OF_SERVERS}
#: Figures of what this study has not: steps, slowed nodes, plans, references, owners in its logs.
OF_OTHER_STUDIES = {
    "latency_by_node",
    *(s.name for s in FIGURES if s.about not in ("", "nodes")),
}


pytestmark = pytest.mark.xdist_group("made-up servers")


@pytest.fixture(scope="module")
def tables(made: MadeStudies) -> Tables:
    return made.tables(engines=["sqlite", "null", "postgres", "mongodb"], nodes=[1, 2])


@pytest.fixture(scope="module")
def drawn(tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    """All figures of the study, and the directory that they were written to."""
    directory = tmp_path_factory.mktemp("figures")
    return directory, make_figures(tables, directory)


def test_every_figure_is_made_as_png_and_svg(drawn: tuple[Path, list[Made]]) -> None:
    directory, made = drawn
    assert {m.spec.name for m in made if m.why} <= OF_OTHER_STUDIES
    for one in (m for m in made if not m.why):
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
        figure = draw(chart, style_of(tables))
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
    figure = draw(chart, style_of(tables))
    assert figure is not None
    write = next(a for a in figure.axes if a.get_title().startswith("write"))
    summary = tables.summary[
        (tables.summary["measure"] == "documents_per_s") & (tables.summary["phase"] == "write")
    ]
    means = [container.lines[0].get_xdata()[0] for container in write.containers]
    assert sorted(means) == pytest.approx(sorted(summary["mean"]))
    read = next(a for a in figure.axes if a.get_title() == "read")
    assert read.get_xscale() == "log"  # from 3,000 to 400,000 a second
    assert write.get_xscale() == "linear"


def test_one_level_has_no_scaling_and_says_so(made: MadeStudies, tmp_path: Path) -> None:
    tables = made.tables(engines=["sqlite"], workers=[1], repeats=1)
    drawn = make_figures(tables, tmp_path / "figures")
    missing = {m.spec.name: m.why for m in drawn if m.why}
    assert missing.pop("scaling") == "no numeric factor has more than one level"
    assert set(missing) - OF_OTHER_STUDIES == OF_SERVERS - OF_OTHER_STUDIES
    assert not (tmp_path / "figures" / "scaling.png").exists()


@pytest.mark.parametrize(
    ("phase", "missing"), [("write", {"scaling", *OF_SERVERS}), ("read", PART_OF_A_READ)]
)
def test_one_phase_alone_has_its_figures(tmp_path: Path, phase: str, missing: set[str]) -> None:
    synthetic.make_study(
        tmp_path / "s", engines=["sqlite", "null"], workers=[1], repeats=1, phases=[phase]
    )
    made = make_figures(build_tables(load_results(tmp_path / "s")))
    # Only for the reason that its own list gives, never for an error while drawing.
    result = {m.spec.name for m in made if m.why}
    assert result - OF_OTHER_STUDIES == missing - OF_OTHER_STUDIES
    assert all(m.why in ("", m.spec.absent) for m in made)


def test_study_of_failures_has_no_figures(tmp_path: Path) -> None:
    synthetic.make_failed(tmp_path / "s", {"engine": "sqlite"}, 1, "no room")
    made = make_figures(build_tables(load_results(tmp_path / "s")))
    assert all(m.svg is None and m.why == m.spec.absent for m in made)


def test_a_figure_that_fails_leaves_its_reason(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_: Tables) -> None:
        raise ValueError("odd results")

    spec: FigureSpec = replace(FIGURES[0], make=broken)
    monkeypatch.setattr(captions, "FIGURES", (spec,))
    (tmp_path / "throughput.png").write_bytes(b"of an earlier run")
    (made,) = make_figures(tables, tmp_path)
    assert made.why == "ValueError: odd results"
    assert not (tmp_path / "throughput.png").exists()


def test_engines_keep_their_colours_and_markers() -> None:
    style = Style(["b", "a", "null"])
    assert (style.colour("a"), style.colour("b")) == COLOURS[:2]
    assert style.colour("null") == GREY
    assert style.marker("a") != style.marker("b") != style.marker("null")
    assert len({style.hatch(e) for e in ("a", "b", "null")}) == 3


def test_no_two_of_all_engines_look_alike() -> None:
    style = Style(ENGINES)
    looks = [[see(name) for name in ENGINES] for see in (style.colour, style.marker, style.hatch)]
    assert all(len(set(look)) == len(ENGINES) for look in looks)


def test_axis_numbers() -> None:
    assert [tick(v) for v in (0, 0.1, 15, 25_000, 1.5e6)] == ["0", "0.1", "15", "25 k", "1.5 M"]
    assert spread([1, 30])
    assert not spread([10, 30])
    assert not spread([])
