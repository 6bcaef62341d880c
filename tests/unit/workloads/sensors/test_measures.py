"""Workload `measures`: its readings, thresholds, plans and shares."""

import csv
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.client_context import make_context
from support.paths import ROOT
from typer.testing import CliRunner

from storewise.cli import measures as measures_cli
from storewise.cli.main import app
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine
from storewise.errors import ConfigError, EngineError
from storewise.study.load import load_study
from storewise.workloads.sensors import generator as measures_data
from storewise.workloads.sensors.generator import MEASURES, Readings, threshold
from storewise.workloads.sensors.params import AddParams, RangeParams
from storewise.workloads.sensors.workload import MeasuresWorkload

SMALL = Readings(machines=5, sensors=3, seed=7)


def every(readings, rows):
    return readings.values(np.arange(rows))


def test_readings_do_not_depend_on_what_is_made_with_them():
    readings = Readings(machines=100, sensors=7, seed=3)
    documents = readings.documents(np.arange(700_000, 730_000))
    for at in (0, 365, 16_800, 29_999):
        assert readings.documents(np.array([700_000 + at])) == [documents[at]]


def test_seeds_and_places_give_other_readings():
    values = [every(Readings(5, 3, seed), 3000) for seed in (7, 8, 9)]
    assert (values[0] == every(SMALL, 3000)).all()
    for other in values[1:]:
        assert np.mean(values[0] == other) < 0.01
    series = values[0].reshape(-1, 15)
    assert abs(np.corrcoef(np.diff(series[:, 0]), np.diff(series[:, 1]))[0, 1]) < 0.3


def test_readings_are_like_pressures():
    """Moments of the parts that the generator is said to have."""
    readings = Readings(machines=4, sensors=4, seed=3)
    ticks = 3 * 1440
    values = every(readings, 16 * ticks).reshape(-1, 16)
    level = values.mean(axis=0)
    assert 9 < level.mean() < 11 and 0.2 < level.std() < 1.0
    # By the minute only noise changes: a step's variance is 2 * 0.15^2.
    steps = np.diff(values, axis=0)
    typical = np.percentile(np.abs(steps), 50) / 0.6745
    assert typical == pytest.approx(0.15 * np.sqrt(2), rel=0.05)
    # One reading in 5,000 has a spike; half of those of mean 2 stand out by more than 1.4.
    high = (steps > 1.4).sum() / values.size
    assert 0.3 / 5000 < high < 1.2 / 5000
    day = values.reshape(3, 1440, 16).mean(axis=0)
    assert (np.ptp(day - day.mean(axis=0), axis=0) > 0.15).all()


def test_keys_are_distinct_and_packed_as_the_kind_says():
    documents, ids = SMALL.documents(np.arange(5000)), SMALL.ids(np.arange(5000))
    assert len(set(ids)) == 5000
    assert [document["_id"] for document in documents] == ids
    for document in documents[:50]:
        assert MEASURES.pack((document["m"], document["s"], document["bt"])) == document["_id"]
        assert document["bt"] < document["et"] < document["bt"] + 60_000_000
        assert list(document) == [f.name for f in MEASURES.fields]
        assert [type(v) for v in document.values()] == [bytes, int, int, int, int, float]
    # 5,000 readings of 15 series: 333 ticks and 5 readings of the first two machines.
    assert Counter(document["m"] for document in documents) == {
        1: 1002,
        2: 1001,
        3: 999,
        4: 999,
        5: 999,
    }


@pytest.mark.parametrize(("parts", "stores"), [(1, 1), (4, 1), (7, 3), (40, 1), (2, 9)])
def test_shares_of_clients_are_disjoint_and_whole(parts, stores):
    """Also with stores that get no series."""
    start, stop = 11, 311
    placement = MeasuresWorkload().placement(stores, ())
    ids = []
    for store in range(stores):
        for part in range(parts):
            for rows in SMALL.rows(start, stop, (part, parts), (store, stores)):
                mine = SMALL.ids(rows)
                assert {placement(key) for key in mine} <= {store}
                ids += mine
    assert len(ids) == stop - start
    assert set(ids) == set(SMALL.ids(np.arange(start, stop)))


def test_batches_have_their_size():
    chunks = np.split(np.arange(1003), [300, 600])
    sizes = [len(batch) for batch in SMALL.batches(chunks, 250)]
    assert sizes == [250, 250, 250, 250, 3]


@pytest.mark.parametrize("percent", [0.002, 0.02, 0.2, 0.25, 1, 2, 5, 10, 60, 100])
def test_a_threshold_has_its_share_above_it(percent):
    values = every(SMALL, 50_000)
    value, matched = threshold(SMALL, 50_000, percent)
    assert matched == (values > value).sum() == pytest.approx(500 * percent, abs=2)


def test_a_threshold_of_many_readings_comes_from_a_sample(monkeypatch):
    readings = Readings(machines=5, sensors=3, seed=8)
    rows = 4 * measures_data.CHUNK
    assert threshold(readings, rows, 5)[1] == round(rows * 0.05)
    monkeypatch.setattr(measures_data, "EXACT_ROWS", rows // 2)
    measures_data._sample.cache_clear()
    value, matched = threshold(readings, rows, 5)
    assert matched is None
    assert 0.03 < (every(readings, rows) > value).mean() < 0.07
    measures_data._sample.cache_clear()


def test_csv_has_the_readings_of_a_load(tmp_path):
    out = tmp_path / "readings.csv"
    arguments = ["measures", "--rows", "1234", "--seed", "7", "--machines", "5", "--sensors", "3"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(out)])
    assert result.exit_code == 0, result.output
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for row, document in zip(lines, SMALL.documents(np.arange(1234)), strict=True):
        assert {k: float(v) if k == "mv" else int(v) for k, v in row.items()} == {
            k: v for k, v in document.items() if k != "_id"
        }
    piped = CliRunner().invoke(app, [*arguments, "-o", "-"])
    assert piped.stdout == out.read_text()
    gone = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "gone" / "x.csv")])
    assert gone.exit_code != 0 and "cannot be written" in str(gone.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["readings.csv"]
    for limit in ("MAX_ROWS", "MAX_NUMBER"):
        assert getattr(measures_cli, limit) == getattr(measures_data, limit)


def test_what_clients_answer_themselves(tmp_path):
    """From a range, from scans and from keys the same numbers come as from the store."""
    phases, kinds = MeasuresWorkload.phases, (MEASURES,)
    load = phases["load"].params.model_validate({"rows": 3000})
    cluster = Cluster("sqlite", stores=(tmp_path / "store",), kinds=kinds)
    client = engine("sqlite").connect(cluster, "write")
    client.create(Schema(kinds))
    client.insert(MEASURES, Readings().documents(np.arange(3000)))
    client.finish()
    ways = {"q2": [], "q3": []}
    for denied in ((), ("finds",), ("finds", "ranges"), ("finds", "ranges", "scans")):
        described = engine("sqlite")
        limited = type("Limited", (type(described),), {})()
        type(limited).flags = replace(described.flags, **dict.fromkeys(denied, False))
        for phase, seen in ways.items():
            params = {"operations": 1, "selectivity_pct": [1, 5]}
            params = phases[phase].params.model_validate(params)
            context = make_context(limited, kinds, params, phase=phase, load=load)
            for operation in MeasuresWorkload().operations(phase, client, context):
                operation.call()
            assert [n["found"] for n in context.notes] == [30, 150]
            seen.append((context.notes[0]["answered_by"], context.notes[0]["verb"]))
    client.close()
    itself = [("client", verb) for verb in ("range", "scan", "get_many")]
    assert ways == {"q2": [("store", "find"), *itself], "q3": [("store", "count_where"), *itself]}


class _Refusing:
    """A client that refuses an insert now and then."""

    def __init__(self):
        self.stored = []
        self.calls = 0

    def insert(self, kind, documents):
        self.calls += 1
        if self.calls % 3 == 1:
            raise EngineError("not now")
        self.stored += [d["bt"] for d in documents]


def _adding(params=None, **more):
    params = params or AddParams(rows=1000, batch_size=100)
    load = MeasuresWorkload.phases["load"].params.model_validate({"rows": 2000})
    return make_context(engine("sql"), (MEASURES,), params, load=load, **more)


def test_a_refused_batch_is_stored_before_the_next():
    client = _Refusing()
    failed = 0
    for operation in MeasuresWorkload().operations("add", client, _adding()):
        try:
            operation.call()
        except EngineError:
            failed += 1
    assert failed == 5 and client.calls == 15
    documents = Readings().documents(np.arange(2000, 3000))
    assert client.stored == [document["bt"] for document in documents]
    with pytest.raises(ConfigError, match="give at least 3"):
        MeasuresWorkload().operations("add", client, _adding(processes=3, clients=2))


def test_executions_within_the_warm_up_are_no_times():
    client = SimpleNamespace(find=lambda query: [])
    for warmup, times in ((0, 3), (60, 0)):
        params = RangeParams(selectivity_pct=(1.0,), warmup=warmup, operations=6)
        # Not the client of number 0: it would ask for a plan.
        context = _adding(params=params, client=1, clients=2, phase="q2")
        for operation in MeasuresWorkload().operations("q2", client, context):
            operation.call()
        assert [(len(note["seconds"]), note["found"]) for note in context.notes] == [(times, 0)]


def test_what_ends_a_query_phase():
    assert RangeParams().operations == 3
    assert RangeParams(operations=None).operations == 3
    # Three executions would end it long before its time.
    assert RangeParams(seconds=5).operations is None
    assert RangeParams(seconds=5, operations=7).operations == 7


def test_the_demonstration_is_read():
    study = load_study("measures", root=ROOT)
    assert {t.engine for t in study.trials()} == {"sqlite", "duckdb", "postgres"}
    assert study.indexes == ["measures.mv"]
