"""What the page's script is given: figures as Plotly takes them, sources, timelines, and JSON that
no text can break out of."""

import base64
import gzip
import json
import math
import statistics
from functools import cache

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, SCALED

from storewise.figures.captions import FIGURES
from storewise.figures.scaling import relative_law
from storewise.figures.style import LOOKS
from storewise.layout import LIBRARY
from storewise.report.data.embed import columns_of, packed, plain, script_json
from storewise.report.data.evidence import Evidence, headline_id, headlines, with_ids
from storewise.report.data.filters import Facets
from storewise.report.graphs import SYMBOLS, Graphs
from storewise.report.page.timelines import span, timelines

pytestmark = GROUP


def test_every_engine_has_a_symbol_of_its_own_on_the_page():
    script = (LIBRARY / "storewise/report/templates/js/figures.js").read_text()
    symbols = [SYMBOLS[one.marker] for one in LOOKS.values() if one.marker != "|"]
    assert len(set(symbols)) == len(symbols)
    assert [symbol for symbol in symbols if f'"{symbol}": "M' not in script] == []


@pytest.fixture(scope="module")
def tables(made):
    return made.tables(**SCALED)


@pytest.fixture(scope="module")
def evidence(tables):
    return Evidence(tables)


@pytest.fixture(scope="module")
def facets(tables, evidence):
    return Facets(tables, evidence)


@pytest.fixture(scope="module")
def panels(tables, evidence, facets):
    """The panels of a figure by its name, as the page has them."""
    graphs = Graphs(evidence, facets)
    make = {spec.name: spec.make for spec in FIGURES}
    return cache(lambda name: graphs.payload(make[name](tables))["panels"])


DRAWN = ("throughput", "over_time", "latency", "scaling", "nodes", "storage", "costs")


@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_what_plotly_takes_and_their_points_name_rows(evidence, panels, name):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    column = {"latency": "value"}.get(name, "mean")
    scale = 1e3 if name == "latency" else 1.0
    points = 0
    for panel in panels(name):
        # It refuses what Plotly does not know.
        taken = plain(panel)
        figure = graph_objects.Figure(data=taken["data"], layout=taken["layout"])
        assert len(figure.data) == len(panel["data"]) > 0
        assert {"xaxis", "yaxis"} <= set(panel["layout"])
        for trace in panel["data"]:
            values = trace["x" if panel["rows"] else "y"]
            for value, source in zip(values, trace.get("customdata", ()), strict=False):
                if source:
                    csv, row = source.split(":")
                    cell = evidence.frames[csv].iloc[int(row)][column]
                    assert value == pytest.approx(cell * scale)
                    points += 1
    assert points or name == "over_time"


def test_lines_know_what_they_are_chosen_by(facets, panels):
    assert facets.names == ["engine", "phase", "nodes", "workers"]
    levels = {one["name"]: one["levels"] for one in facets.payload()}
    assert levels["workers"] == ["1", "2", "4", "6", "8"]
    assert levels["phase"] == ["write", "read"]
    traces = panels("throughput")[1]["data"]
    trace = next(t for t in traces if "PostgreSQL, 2 nodes" in t["name"])
    named = dict(zip(facets.names, trace["meta"]["f"], strict=True))
    assert levels["engine"][named["engine"]] == "PostgreSQL"
    assert (levels["phase"][named["phase"]], levels["nodes"][named["nodes"]]) == ("read", "2")
    embedded = next(t for t in panels("storage")[0]["data"] if "SQLite" in t["name"])
    assert embedded["meta"]["f"][facets.place("nodes")] == -1


def test_the_law_is_drawn_beside_speed_ups(panels):
    traces = [trace for panel in panels("scaling") for trace in panel["data"]]
    laws = [t for t in traces if t["name"].startswith("law: SQLite")]
    assert laws
    assert laws[0]["y"][0] == pytest.approx(1.0)
    # lambda 100, sigma 0.1, kappa 0: X(1) = 100, X(4) = 400 / 1.3.
    xs, ys = relative_law({"lambda": 100.0, "sigma": 0.1, "kappa": 0.0}, 1.0, [1.0, 4.0])
    assert (xs[0], xs[-1]) == (1.0, 4.0)
    assert ys[-1] == pytest.approx(4 / 1.3)


def test_json_in_a_script_cannot_be_left():
    evil = "</script><script>alert(1)</script><!-- \u2028 &"
    text = str(script_json({"name": evil, "bad": math.nan, "more": math.inf}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": evil, "bad": None, "more": None}
    raw = gzip.decompress(base64.b64decode(str(packed([evil]))))
    assert json.loads(raw) == [evil]
    values = [np.int64(3), np.float64(2.0), 1 / 3, np.bool_(False), None, pd.NA]
    assert plain(values) == [3, 2, 0.333333, False, None, None]
    frame = pd.DataFrame({"a": ["x", "y"] * 5, "b": [1.0] * 10, "c": range(10)})
    columns = [{"k": ["x", "y"], "i": [0, 1] * 5}, {"c": 1}, list(range(10))]
    assert columns_of(frame)["values"] == columns


def test_evidence_has_trials_values_and_files(tables, evidence):
    payload = evidence.payload(["summary", "nothing of this name"])
    (summary,) = payload["tables"].values()
    rows = tables.summary[["n", "mean"]].to_numpy().tolist()
    for (n, mean), trials, values in zip(rows, summary["trials"], summary["each"], strict=True):
        assert len(trials) == n
        # The mean over repeats is geometric where it can be.
        of = statistics.geometric_mean if min(values) > 0 else statistics.fmean
        assert of(values) == pytest.approx(mean)
    assert {"write.0.parquet", "write.0.hlog"} <= set(payload["trials"][0]["files"])
    # Trials behind a speed-up are those of both levels.
    rows = tables.scaling[(tables.scaling["level"] > tables.scaling["base"])]
    assert len(evidence.names_of("scaling", rows.iloc[0].to_dict())) == 4


def test_headline_ids_are_stable_and_lead_to_their_rows(tables):
    summary = with_ids(tables.summary, tables.results.factors)
    assert summary["id"].is_unique
    result = headlines(tables)
    for (csv, row), (line, name) in result.items():
        expected = getattr(tables, csv).iloc[row]
        value = expected["value"] if csv == "latency_summary" else expected["mean"]
        assert summary.iloc[line]["id"] == name
        assert summary.iloc[line]["mean"] == pytest.approx(value, nan_ok=True)
    assert len(result) == len(summary)
    # A number that is whole: the same name.
    one = {"engine": "sqlite", "workers": 2.0, "nodes": math.nan, "phase": "read", "measure": "m"}
    ids = [headline_id({**one, "workers": n}, list(one)) for n in (2.0, 2, 3)]
    assert ids[0] == ids[1] != ids[2]


def test_timelines_have_what_was_sampled(tables):
    message, data = timelines(tables)
    assert len(message) == len(data) == len(tables.trials)
    assert span(tables) == 1
    place = next(i for i, one in enumerate(message) if one["id"].startswith("sqlite-w1-r1"))
    assert message[place]["name"] == "SQLite, 1 worker, repeat 1"
    read = data[place]["parts"][1]
    assert (read["phase"], read["warm"], read["dx"]) == ("read", 1, 1)
    series = tables.series[tables.series["length"] >= 0.2]
    kept = series[(series["trial"] == message[place]["id"]) & (series["phase"] == "read")]
    assert read["operations"] == pytest.approx(kept["operations_per_s"].to_list(), rel=1e-3)
    assert set(read["hosts"]["node-7"]) == {"cpu", "iowait", "disk_write"}
