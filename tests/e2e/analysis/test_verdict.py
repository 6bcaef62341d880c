"""The verdict on made-up studies: criteria, ranks, weights, the two sentences, what is left out."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from support.results import synthetic
from support.results.made import GROUP, only, with_study

from storewise.analysis.files.inputs import FailedTrial
from storewise.analysis.measure.summary import summarise
from storewise.analysis.model.columns import ALL
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.verdict.criteria import latency, phases_of_kinds, scaling, setup
from storewise.analysis.verdict.decision import verdict
from storewise.analysis.verdict.export import verdict_data, verdict_table
from storewise.analysis.verdict.measures import rounds_in_words

pytestmark = GROUP


def tables_of(study):
    return build_tables(load_results(study))


@pytest.fixture(scope="module")
def embedded(made):
    return made.tables(engines=["sqlite", "parquet", "null"], repeats=3)


@pytest.fixture(scope="module")
def servers(made):
    return made.tables(engines=["sqlite", "postgres", "mongodb"], workers=[1], nodes=[1, 2])


def weighing(tables, **weights):
    return with_study(tables, weights=weights)


def named(result):
    return list(result.decision.table.query("named").index)


def one(result, name):
    return next(c for c in result.criteria if c.name == name)


def levels(tables, engine, **others):
    """The factors of a trial of an engine."""
    rows = tables.trials[tables.trials["engine"] == engine]
    return {**rows.iloc[0][list(tables.results.factors)].to_dict(), **others}


def counted(tables, **inodes):
    """The tables with files and directories of engines."""
    sizes = tables.storage[tables.storage["measure"] == "bytes_per_document"]
    engines = sizes.merge(tables.trials[["trial", "engine"]], on="trial")["engine"].astype(str)
    sizes = sizes[engines.isin(inodes).to_numpy()]
    numbers = engines[engines.isin(inodes)].map(inodes).to_numpy()
    added = sizes.assign(measure="inodes", unit="1", value=numbers)
    measures = pd.concat([tables.measures, added], ignore_index=True)
    return replace(tables, measures=measures, summary=summarise(measures, tables.results))


def test_criteria_ranks_and_sources_of_embedded_stores(embedded):
    result = verdict(embedded)
    leaders = {c.name: c.leaders for c in result.criteria}
    assert list(leaders) == ["load", "read", "latency", "scaling", "disk", "cost"]
    assert (leaders["read"], leaders["load"]) == (("SQLite",), ("Parquet files",))
    assert one(result, "latency").about == "p99 of get, phase read, 2 clients"
    table = verdict_table(result)
    assert set(table["choice"]) == {"SQLite", "Parquet files"}
    for row in table.to_dict("records"):
        source = embedded.frames()[row["source_table"]].loc[int(row["source_row"])]
        assert source["mean"] == pytest.approx(row["mean"])


def test_operations_tell_what_a_phase_is():
    shares = {
        "a": {"read": 0.5, "update": 0.5},
        "b": {"read": 0.95, "update": 0.05},
        "c": {"read": 1.0},
        "e": {"scan": 0.95, "insert": 0.05},
        "q3": {"q3": 1.0},
        "query": {"best_hits": 0.6, "top_genes": 0.4},
    }
    assert phases_of_kinds(shares, list(shares)) == {"read": "c", "scan": "e", "aggregate": "q3"}
    # Without the purer phase the next one counts; what is half something else never does.
    assert phases_of_kinds(shares, ["a", "b"]) == {"read": "b"}
    assert phases_of_kinds(shares, ["a", "query"]) == {}


def test_weights_of_any_size_are_proportions(embedded):
    small = verdict(weighing(embedded, read=1, load=1))
    for size in (1e-300, 1.5e308):
        result = verdict(weighing(embedded, read=size, load=size))
        assert result.decision.sentence == small.decision.sentence
        pd.testing.assert_frame_equal(result.decision.table, small.decision.table)


def test_weights_of_zero_or_unknown_criteria_are_as_none(embedded):
    plain = verdict(embedded)
    for weights in ({"read": 0.0}, {"aggregate": 3.0}, {"nonsense": 1.0}):
        result = verdict(weighing(embedded, **weights))
        pd.testing.assert_frame_equal(result.decision.table, plain.decision.table)
    message = " ".join(verdict(weighing(embedded, aggregate=3, read=1)).text)
    assert "weights aggregate could not count" in message


def test_equal_stores_cannot_be_told_apart(tmp_path, monkeypatch):
    same = (20_000, 5_000, 100)
    monkeypatch.setattr(synthetic, "SPEEDS", {"sqlite": same, "duckdb": same})
    synthetic.make_study(tmp_path / "s", engines=["sqlite", "duckdb"], workers=[1])
    result = verdict(tables_of(tmp_path / "s"))
    assert set(named(result)) == {"SQLite", "DuckDB"}
    assert "No store is clearly better" in result.finding
    assert all(s.rank == 1 for c in result.criteria for s in c.stores)
    # What is equal for all has no weight.
    assert one(result, "disk").weight == 0


def test_single_runs_recommend_nothing(tmp_path):
    short = {"workers": [1], "repeats": 1, "read_seconds": 2.0, "scale": 20.0}
    synthetic.make_study(tmp_path / "s", engines=["sqlite", "parquet"], **short)
    tables = tables_of(tmp_path / "s")
    assert {"few_repeats", "short_phase"} <= {w.code for w in tables.warnings}
    assert all(standing.rank == 0 for standing in one(verdict(tables), "read").stores)
    # A size is counted, so one run is enough to compare it.
    assert one(verdict(tables), "disk").leaders == ("Parquet files",)
    for weighted in (tables, weighing(tables, read=3, disk=1)):
        result = verdict(weighted)
        assert set(named(result)) == {"SQLite", "Parquet files"}
        assert (result.answer.sure, "single runs" in result.answer.reasons) == ("low", True)
    assert named(verdict(weighing(tables, disk=1))) == ["Parquet files"]


def test_one_store_alone_and_none(embedded, tmp_path):
    result = verdict(only(embedded, engine=["sqlite", "null"]))
    assert "Only SQLite can be judged" in result.finding
    synthetic.make_failed(tmp_path / "none", {"engine": "sqlite", "workers": 1}, 1, "no memory")
    nothing = verdict(tables_of(tmp_path / "none"))
    assert "No store can be judged" in nothing.finding
    assert nothing.criteria == []
    assert verdict_table(nothing).empty
    json.dumps(verdict_data(nothing), allow_nan=False)


def test_failed_and_wrong_choices_are_in_no_rank(embedded):
    failed = [FailedTrial("t", 1, levels(embedded, "parquet"), "no room", "", 2)]
    results = replace(embedded.results, failed=failed)
    result = verdict(replace(embedded, results=results))
    trials = int((embedded.trials["engine"] == "parquet").sum()) + 1
    assert dict(result.set_aside) == {
        "Parquet files": f"1 of {trials} trials failed by its own fault"
    }
    assert {s.label for c in result.criteria for s in c.standings} == {"SQLite"}
    by_host = replace(results, failed=[replace(failed[0], host_fault=True)])
    assert verdict(replace(embedded, results=by_host)).set_aside == []


def test_a_round_that_is_not_whole_does_not_count(embedded):
    """As that in which a run was stopped."""
    trials = embedded.results.trials
    of_last = (trials["engine"] == "sqlite") & (trials["repeat"] == 3)
    left = trials.drop(trials.index[of_last][0])
    results = replace(embedded.results, trials=left)
    tables = replace(embedded, results=results, trials=left)
    result = verdict(tables)
    assert result.decision.table["n"].to_dict() == {"SQLite": 2, "Parquet files": 2}
    assert rounds_in_words(tables) == "2 of 3 rounds"
    assert rounds_in_words(embedded) == "3 rounds"
    assert result.text[0].startswith("Stores are judged by the 2 of 3 rounds that are whole;")
    # What is missing of a store that is set aside is missing for nobody.
    failed = FailedTrial("t", 3, levels(embedded, "sqlite"), "locked", "", 2)
    results = replace(results, failed=[failed])
    result = verdict(replace(embedded, results=results, trials=left))
    assert result.decision.table["n"].to_dict() == {"Parquet files": 3}


def test_latency_is_compared_at_the_highest_load_that_both_had(embedded):
    p99 = {
        "sqlite": {1000: 0.001, 4000: 0.002, 9000: 0.900},
        "parquet": {1000: 0.010, 4000: 0.500},
    }
    rows = [
        {
            **{"trial": trial, "phase": "read", "step": rate, "operation": ALL},
            **{"measure": "response_p99", "value": value, "unit": "s"},
            **{"clients": 4.0, "rate": float(rate), "other": ""},
        }
        for trial, engine in zip(embedded.trials["trial"], embedded.trials["engine"], strict=True)
        for rate, value in p99.get(engine, {}).items()
    ]
    measures = pd.concat([embedded.measures, pd.DataFrame(rows)], ignore_index=True)
    summary = summarise(measures, embedded.results)
    figures = latency(replace(embedded, measures=measures, summary=summary))
    assert figures.about == "p99 response, phase read, 4,000 operations/s asked"
    values = figures.values.merge(embedded.trials, on="trial").groupby("engine")["value"]
    assert values.unique().map(list).to_dict() == {"sqlite": [0.002], "parquet": [0.5]}


def test_scaling_is_of_the_nodes_that_most_stores_had(servers):
    figures = scaling(servers)
    assert figures.about == "phase write, nodes 2 against 1"
    standing = one(verdict(servers), "scaling").of("PostgreSQL")
    assert standing.estimate.mean == pytest.approx(2**-0.3, rel=0.1)


def test_setup_of_servers_leaves_the_queue_out_and_embedded_stores_need_none(servers):
    figures = setup(servers)
    rows = figures.values.merge(servers.trials[["trial", "engine"]], on="trial")
    rows = rows[rows["engine"] == "postgres"]
    times = servers.measures[servers.measures["trial"].str.startswith("postgres")]
    formed, queue = (
        times.loc[times["measure"] == name, "value"].to_numpy()
        for name in ("formed_time", "queue_time")
    )
    assert rows["value"].min() == pytest.approx((formed - queue).min())
    criterion = one(verdict(servers), "setup")
    # All below a minute: nothing to choose by.
    assert len(criterion.leaders) == 3
    assert criterion.weight == 0
    assert len(named(verdict(weighing(servers, setup=1)))) > 1


def test_loss_in_crashes_is_a_condition(servers):
    trials = servers.trials[servers.trials["nodes"].isin([1])]
    rows = []
    for engine, lost in (("postgres", [0.0, 0.0]), ("mongodb", [40.0, 44.0])):
        names = trials.loc[trials["engine"] == engine, "trial"].iloc[:2]
        rows += [
            {"trial": name, "phase": "read", "step": step, "lost_documents": count}
            for name, count in zip(names, lost, strict=True)
            for step in (1, 2)
        ]
    crashes = pd.DataFrame(rows).reindex(columns=servers.crashes.columns)
    # It is a condition, no part of the scores.
    found = verdict(replace(servers, crashes=crashes)).decision
    assert "MongoDB in 4 of 4, PostgreSQL in 0 of 4 (Fisher's exact test: p = 0.029)" in (
        found.sentence
    )


def test_losses_of_relaxed_stores_in_crashes_are_a_figure_and_set_nobody_aside(servers):
    name = servers.trials.loc[servers.trials["engine"] == "mongodb", "trial"].iloc[0]
    lost = {"trial": name, "kind": "rna", "expected": 100.0, "lost": 3.0}
    checked = pd.DataFrame([lost]).reindex(columns=servers.verification.columns)
    crashes = pd.DataFrame([{"trial": name, "phase": "read", "step": 1, "lost_documents": 3.0}])
    crashes = crashes.reindex(columns=servers.crashes.columns)
    trials = servers.results.trials.assign(consistency="relaxed")
    relaxed = replace(servers, results=replace(servers.results, trials=trials))
    for tables, crashed, aside in (
        (relaxed, crashes, []),
        (relaxed, servers.crashes, ["MongoDB"]),
        (servers, crashes, ["MongoDB"]),
    ):
        result = verdict(replace(tables, crashes=crashed, verification=checked))
        assert [label for label, _ in result.set_aside] == aside


def test_a_million_files_lower_the_score_a_little(embedded):
    result = verdict(counted(embedded, sqlite=6, parquet=1_119_820))
    shares = {c.name: c.weight for c in result.criteria if c.weight}
    assert shares["inodes"] == pytest.approx(shares["disk"] / 10)
    alone = verdict(weighing(counted(embedded, sqlite=6, parquet=1_119_820), inodes=1))
    assert named(alone) == ["SQLite"]
    # Ten thousand are the least that counts: the ratio is not 187,000.
    second = alone.decision.table["score"].iloc[1]
    assert second == pytest.approx(10_000 / 1_119_820)
