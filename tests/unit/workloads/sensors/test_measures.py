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
from storewise.workloads.sensors.generator import (
    MEASURES,
    Part,
    Readings,
    batches,
    store_of,
    threshold,
)
from storewise.workloads.sensors.params import AddParams, RangeParams
from storewise.workloads.sensors.workload import MeasuresWorkload

SMALL = Readings(machines=5, sensors=3, seed=7)
#: A part of ClickHouse's plan; to be filled in: how many granules the index leaves.


def columns(chunks):
    names = ("m", "s", "bt", "et", "mv")
    return {name: np.concatenate([getattr(c, name) for c in chunks]) for name in names}


@pytest.mark.parametrize(
    ("readings", "first", "number", "size"),
    [
        *((SMALL, 15_000, 800, size) for size in (1, 14, 1000, 100_000)),
        (Readings(machines=100, sensors=7, seed=3), 700_000, 30_000, 3000),
    ],
)
def test_readings_do_not_depend_on_the_chunks(readings, first, number, size):
    """Over the border of two segments of noise, and of more series than are made at a time."""
    part = Part(readings, first, first + number)
    whole, result = (columns(list(part.chunks(n))) for n in (10**6, size))
    assert len(whole["mv"]) == number
    for name, values in whole.items():
        assert (result[name] == values).all(), name
    documents = [d for chunk in part.chunks(size) for d in chunk.documents()]
    for at in (0, 365, number * 14 // 25 - 1, number * 14 // 25, number - 1):
        assert documents[at] == readings.document(first + at)


def test_seeds_and_places_give_other_readings():
    every = [Readings(5, 3, seed) for seed in (7, 8, 9)]
    values = [np.concatenate(list(r.values_of(3000))) for r in every]
    again = np.concatenate(list(Readings(5, 3, 7).values_of(3000)))
    assert (values[0] == again).all()
    for other in values[1:]:
        assert np.mean(values[0] == other) < 0.01
    series = values[0].reshape(-1, 15)
    assert abs(np.corrcoef(np.diff(series[:, 0]), np.diff(series[:, 1]))[0, 1]) < 0.3


def test_readings_are_like_pressures():
    """Moments of the parts that the generator is said to have."""
    readings = Readings(machines=4, sensors=4, seed=3)
    ticks = 3 * 1440
    values = readings.values(np.arange(16), 0, ticks)
    level = values.mean(axis=0)
    assert 9 < level.mean() < 11 and 0.2 < level.std() < 1.0
    quiet = values[(values < level + 3).all(axis=1)]
    # Neighbours in time: noise with a correlation of 0.95 on top of slow waves.
    centred = quiet - quiet.mean(axis=0)
    lag = (centred[1:] * centred[:-1]).mean() / (centred**2).mean()
    assert 0.85 < lag < 1.0
    # By the minute only noise changes: a step's variance is 2 (1 - 0.95) 0.15^2.
    steps = np.diff(values, axis=0)
    typical = np.percentile(np.abs(steps), 50) / 0.6745
    assert typical == pytest.approx(0.15 * np.sqrt(2 * 0.05), rel=0.05)
    # One reading in 5,000 has a spike; most spikes of mean 2 stand out by more than 0.8.
    high = (steps > 0.8).sum() / values.size
    assert 0.3 / 5000 < high < 1.2 / 5000
    day = values.reshape(3, 1440, 16).mean(axis=0)
    assert (np.ptp(day - day.mean(axis=0), axis=0) > 0.15).all()


def test_keys_are_distinct_and_packed_as_the_kind_says():
    (chunk,) = Part(SMALL, 0, 5000).chunks(10**6)
    ids = chunk.ids()
    assert len(set(ids)) == 5000
    assert SMALL.ids(np.arange(5000)) == ids
    for document in chunk.documents()[:50]:
        assert MEASURES.pack((document["m"], document["s"], document["bt"])) == document["_id"]
        assert document["bt"] < document["et"] < document["bt"] + 60_000_000
        assert list(document) == [f.name for f in MEASURES.fields]
        assert [type(v) for v in document.values()] == [bytes, int, int, int, int, float]
    # 5,000 readings of 15 series: 333 ticks and 5 readings of the first two machines.
    assert Counter(chunk.m.tolist()) == {1: 1002, 2: 1001, 3: 999, 4: 999, 5: 999}


@pytest.mark.parametrize(("parts", "stores"), [(1, 1), (4, 1), (7, 3), (40, 1), (2, 5)])
def test_shares_of_clients_are_disjoint_and_whole(parts, stores):
    """Also with more clients than ticks, and stores that get no series."""
    start, stop = 11, 311
    ids = []
    for store in range(stores):
        for part in range(parts):
            for chunk in Part(SMALL, start, stop, store, stores).chunks(64, part, parts):
                mine = chunk.ids()
                assert {store_of(i, stores) for i in mine} <= {store}
                ids += mine
    assert len(ids) == stop - start
    assert set(ids) == set(SMALL.ids(np.arange(start, stop)))


def test_batches_have_their_size():
    sizes = [len(batch) for batch in batches(Part(SMALL, 0, 1003).chunks(300), 250)]
    assert sizes == [250, 250, 250, 250, 3]


@pytest.mark.parametrize("percent", [0.002, 0.02, 0.2, 0.25, 1, 2, 5, 10, 60, 100])
def test_a_threshold_has_its_share_above_it(percent):
    every = 50_000
    values = np.concatenate(list(SMALL.values_of(every)))
    result = threshold(SMALL, every, percent)
    assert result.matched == int((values > result.value).sum())
    assert result.matched == pytest.approx(every * percent / 100, abs=2)
    for no_share in (0, -percent, 101, float("nan")):
        with pytest.raises(ValueError, match="100 %"):
            threshold(SMALL, 1000, no_share)


def test_a_threshold_of_many_readings_comes_from_a_sample(monkeypatch):
    readings = Readings(machines=5, sensors=3, seed=8)
    every = 15 * 1024 * 8
    exact = threshold(readings, every, 5)
    assert exact.matched == every // 20
    monkeypatch.setattr(measures_data, "EXACT_ROWS", every // 4)
    measures_data._sample.cache_clear()
    result = threshold(readings, every, 5)
    assert result.matched is None
    values = np.concatenate(list(readings.values_of(every)))
    assert 0.03 < (values > result.value).mean() < 0.07
    measures_data._sample.cache_clear()


def test_csv_has_the_readings_of_a_load(tmp_path):
    out = tmp_path / "readings.csv"
    arguments = ["measures", "--rows", "1234", "--seed", "7", "--machines", "5", "--sensors", "3"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(out)])
    assert result.exit_code == 0, result.output
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    (chunk,) = Part(SMALL, 0, 1234).chunks(10**6)
    for row, document in zip(lines, chunk.documents(), strict=True):
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
    for batch in batches(Part(Readings(), 0, 3000).chunks(1000), 1000):
        client.insert(MEASURES, batch)
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
    expected = [d["bt"] for c in Part(Readings(), 2000, 3000).chunks(10**6) for d in c.documents()]
    assert client.stored == expected
    with pytest.raises(ConfigError, match="give at least 3"):
        MeasuresWorkload().operations("add", client, _adding(processes=3, total=2, first=0))


def test_executions_within_the_warm_up_are_no_times():
    client = SimpleNamespace(find=lambda query: [])
    for warmup, times in ((0, 3), (60, 0)):
        params = RangeParams(selectivity_pct=(1.0,), warmup=warmup, operations=6)
        # Not the client of number 0: it would ask for a plan.
        context = _adding(params=params, first=1, total=2, phase="q2")
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
