"""The one renderer of tables: what a cell says follows from its unit."""

import math

import pandas as pd
import pytest
from support.results.made import GROUP, SCALED

from storewise.report.shown import HOSTS, TABLES
from storewise.report.tables import Spec, render

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    return made.tables(**SCALED)


@pytest.fixture(scope="module")
def draw(tables):
    def one(spec, frame):
        return render(spec, {spec.csv or spec.id: frame}, tables)

    return one


def texts(table):
    return [[cell.text for cell in line.cells] for line in table.lines]


def test_cells_by_hand(draw):
    frame = pd.DataFrame(
        {
            "engine": ["sqlite", "postgres"],
            "mean": [0.0021, 1234.5],
            "low": [0.002, math.nan],
            "high": [0.0022, math.nan],
            "unit": ["s", "operations/s"],
            "weight": [0.5, 0.25],
            "p": [0.0001, 0.25],
            "flags": ["a, b", ""],
            "n": [3, 3],
            "nothing": [None, None],
        }
    )
    columns = ("mean", "weight", "p", "flags", "n", "nothing", "not there")
    made = draw(Spec("t", "Title", columns, ("engine",)), frame)
    assert made.heads == ["engine", "mean, 95 % interval", "weight", "p", "flags"]
    # What is the same in all rows stands in the caption; what is empty nowhere.
    assert made.caption == "Title; all rows: repeats 3"
    assert texts(made) == [
        ["SQLite", "2.10 ms", "50 %", "< 0.001", "a, b"],
        ["PostgreSQL", "1,230 operations/s", "25 %", "0.250", "–"],
    ]
    assert [line.cells[1].note for line in made.lines] == ["2.00 ms to 2.20 ms", ""]
    assert [line.source for line in made.lines] == ["t:0", "t:1"]
    assert [made.numeric(place) for place in range(5)] == [False, True, True, True, False]


def test_levels_of_a_column_become_columns(draw):
    frame = pd.DataFrame(
        [
            ("t1", "cpu_user", 10.0, 20.0),
            ("t1", "disk_read", 2048.0, 4096.0),
            ("t2", "cpu_user", 5, 5),
        ],
        columns=["trial", "metric", "mean", "max"],
    )
    spec = Spec("t", "", ("cpu_user", "disk_read"), ("trial",), wide="metric")
    made = draw(spec, frame)
    assert texts(made) == [["t1", "10.0 %", "2.00 KiB/s"], ["t2", "5.00 %", "–"]]
    assert made.lines[0].cells[1].note == "max. 20.0 %"
    assert [line.source for line in made.lines] == ["t:0-1", "t:2"]


def test_every_table_names_columns_that_the_analysis_has(tables):
    """A renamed column would only be missing on the page."""
    frames = tables.frames()
    for spec in (*TABLES, *HOSTS):
        if not spec.wide:
            there = set(frames[spec.csv or spec.id].columns)
            wanted = {*spec.columns, *spec.keys} - {"setting", "memory_used"}
            assert wanted <= there, spec.id


def test_sources_are_rows_of_the_files(tables, draw):
    rates = next(spec for spec in TABLES if spec.id == "rates")
    made = draw(rates, tables.summary)
    mean = next(place for place, head in enumerate(made.heads) if head.startswith("mean"))
    assert len(made.lines) > 5
    for line in made.lines:
        csv, row = line.source.split(":")
        assert csv == "summary"
        assert tables.summary.loc[int(row), "mean"] == line.cells[mean].order
