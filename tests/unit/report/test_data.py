"""What the page has of the tables: points of figures, sources, timelines, and JSON that no text can
break out of."""

import base64
import gzip
import json
import math
import statistics
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, SCALED

from storewise.figures.make import FIGURES
from storewise.report.data.embed import packed, plain
from storewise.report.data.evidence import evidence
from storewise.report.page.timelines import timelines

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    return made.tables(**SCALED)


@pytest.fixture(scope="module")
def charts(tables):
    """The charts of a study by their names."""
    return {name: build(tables) for name, build in FIGURES.items()}


@pytest.mark.parametrize("name", ["throughput", "latency", "scaling", "storage", "costs"])
def test_points_of_figures_name_their_rows(tables, charts, name):
    frames = tables.frames()
    scale = 1e3 if name == "latency" else 1.0
    series = [one for panel in charts[name].panels for one in panel.series]
    points = [point for one in series for point in one.points if point.source]
    assert points
    for point in points:
        csv, row = point.source.split(":")
        value = point.x if isinstance(point.y, str) else point.y
        assert value == pytest.approx(frames[csv].iloc[int(row)]["mean"] * scale)


def test_the_law_is_drawn_through_the_rates(charts):
    laws = [
        (one.engine, one.points)
        for panel in charts["scaling"].panels
        for one in panel.series
        if one.mode == "lines" and one.points[0].words.startswith("Universal Scalability Law")
    ]
    assert {"sqlite"} <= {engine for engine, _ in laws}
    assert all(a.x < b.x and b.y > 0 for _, points in laws for a, b in pairwise(points))


def test_values_as_json_has_them():
    assert plain({"a": [math.nan, math.inf, "a"]}) == {"a": [None, None, "a"]}
    raw = gzip.decompress(base64.b64decode(str(packed(["<é"]))))
    assert json.loads(raw) == ["<é"]
    values = [np.int64(3), np.float64(2.0), 1 / 3, np.bool_(False), None, pd.NA]
    assert plain(values) == [3, 2, 0.333333, False, None, None]


def test_evidence_has_trials_values_and_files(tables):
    payload = evidence(tables, tables.frames(), ["summary", "nothing of this name"])
    (summary,) = payload["tables"].values()
    rows = tables.summary[["n", "mean"]].to_numpy().tolist()
    for (n, mean), trials, values in zip(rows, summary["trials"], summary["each"], strict=True):
        assert len(trials) == n
        # The mean over repeats is geometric where it can be.
        of = statistics.geometric_mean if min(values) > 0 else statistics.fmean
        assert of(values) == pytest.approx(mean)
    assert {"write.0.parquet", "write.0.hlog"} <= set(payload["trials"][0]["files"])


def test_timelines_have_what_was_sampled(tables):
    joined, message, data = timelines(tables)
    assert len(message) == len(data) == len(tables.trials)
    assert joined == 1
    place = next(i for i, one in enumerate(message) if one["id"].startswith("sqlite-w1-r1"))
    assert message[place]["name"] == "SQLite, 1 worker, repeat 1"
    read = data[place]["parts"][1]
    assert (read["phase"], read["warm"], read["dx"]) == ("read", 1, 1)
    series = tables.series[tables.series["length"] >= 0.2]
    kept = series[(series["trial"] == message[place]["id"]) & (series["phase"] == "read")]
    assert read["operations"] == pytest.approx(kept["operations_per_s"].to_list(), rel=1e-3)
    assert set(read["hosts"]["node-7"]) == {"cpu", "iowait", "disk_write"}
