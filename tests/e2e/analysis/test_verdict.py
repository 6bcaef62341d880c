"""The verdict on made-up studies: criteria, ranks, weights, the two sentences, what is left out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.results import synthetic
from support.results.made import GROUP, Made, only, with_study

from storewise.analysis.common.text import number, rows_as_text
from storewise.analysis.files.inputs import FailedTrial
from storewise.analysis.measure.steps import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_tables
from storewise.analysis.verdict.criteria import Criterion, operations, phases_of_kinds
from storewise.analysis.verdict.criteria_equal_load import from_interval, latency, scaling
from storewise.analysis.verdict.criteria_servers import loss, setup, slow_node
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.analysis.verdict.export import COLUMNS, table_of, verdict_data
from storewise.report.tables.verdict import verdict_tables
from storewise.study.criteria import KEYS

pytestmark = GROUP


def tables_of(study: Path) -> Tables:
    return build_tables(load_results(study))


@pytest.fixture(scope="module")
def embedded(made: Made) -> Tables:
    return made.tables(engines=["sqlite", "parquet", "null"], repeats=3)


@pytest.fixture(scope="module")
def servers(made: Made) -> Tables:
    return made.tables(engines=["sqlite", "postgres", "mongodb"], workers=[1], nodes=[1, 2])


def weighing(tables: Tables, **weights: float) -> Tables:
    return with_study(tables, weights=weights)


def one(result: Verdict, name: str) -> Criterion:
    return next(c for c in result.criteria if c.name == name)


def levels(tables: Tables, engine: str, **others: Any) -> dict[str, Any]:
    """The factors of a trial of an engine."""
    rows = tables.trials[tables.trials["engine"] == engine]
    return {**rows.iloc[0][list(tables.results.factors)].to_dict(), **others}


def estimate(mean: float, half: float = 0.1, n: int = 3) -> dict[str, Any]:
    """Columns of a mean whose interval goes from mean / (1 + half) to mean * (1 + half)."""
    low, high = mean / (1 + half), mean * (1 + half)
    return {"n": n, "mean": mean, "low": low, "high": high, "resampled": "repeats"}


def counted(tables: Tables, **inodes: float) -> Tables:
    """The tables with files and directories of engines, and twice as many metadata operations."""
    sizes = tables.storage_summary
    sizes = sizes[sizes["measure"] == "bytes_per_document"]
    engine = sizes["engine"].astype(str)
    added = []
    for measure, times in (("inodes", 1), ("metadata_operations", 2)):
        rows = sizes[engine.isin(inodes)].assign(measure=measure, unit="1")
        means = rows["engine"].astype(str).map(inodes) * times
        added.append(rows.assign(mean=means, low=means, high=means, error=0.0))
    both = pd.concat([tables.storage_summary, *added], ignore_index=True)
    return replace(tables, storage_summary=both)


# What is judged -----------------------------------------------------------------------------------


def test_criteria_ranks_and_sources_of_embedded_stores(embedded: Tables) -> None:
    result = verdict(embedded)
    assert [c.name for c in result.criteria] == [
        "load",
        "read",
        "latency",
        "scaling",
        "disk",
        "cost",
    ]
    assert one(result, "read").leaders == ("SQLite",)
    assert one(result, "load").leaders == ("Parquet files",)
    assert one(result, "disk").leaders == ("Parquet files",)
    assert one(result, "latency").about == "p99 of get, phase read, 2 clients"
    assert one(result, "scaling").about == "efficiency, phase write, 2 workers against 1"
    table = table_of(result)
    assert list(table.columns) == list(COLUMNS)
    assert set(table["choice"]) == {"SQLite", "Parquet files"}
    for row in table.to_dict("records"):
        source = embedded.frames()[row["source_table"]].loc[int(row["source_row"])]
        assert source["value" if "value" in source else "mean"] == row["mean"]


def test_judged_table_and_files_are_of_the_verdict(embedded: Tables, tmp_path: Path) -> None:
    result = write_tables(embedded, tmp_path)
    pd.testing.assert_frame_equal(embedded.judged["verdict"], table_of(result))
    data = json.loads((tmp_path / "verdict.json").read_text())
    assert data["recommendation"]["sentences"] == list(result.recommendation.sentences)
    assert sum(data["weights"]["shares"].values()) == pytest.approx(1)
    ranks = {(c["name"], s["choice"]): s["rank"] for c in data["criteria"] for s in c["standings"]}
    assert ranks["read", "Parquet files"] == 2
    lines = (tmp_path / "verdict.csv").read_text().splitlines()
    assert len(lines) == 1 + len(table_of(result))
    assert data["sensitivity"]["not_measured"] == [
        *("scan", "aggregate", "slow_node", "inodes", "setup", "loss")
    ]


def test_operations_tell_what_a_phase_is() -> None:
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


def test_shares_of_operations_leave_flush_and_ceiling_out(embedded: Tables) -> None:
    assert operations(embedded) == {"write": {"insert": 1.0}, "read": {"get": 1.0}}


def test_rows_as_text() -> None:
    assert rows_as_text([3]) == "3"
    assert rows_as_text([9, 4, 3, 5]) == "3-5,9"


# The recommendation -------------------------------------------------------------------------------


def test_clear_winner_with_evidence_and_what_would_change_it(embedded: Tables) -> None:
    result = verdict(weighing(embedded, read=1))
    message = result.recommendation
    assert message.choice == "SQLite"
    assert result.weighted
    assert len(message.sentences) == 2
    first, second = message.sentences
    assert result.finding == f"For these inputs, on this machine: {first}"
    assert first.startswith("take SQLite; with reading alone its score is ")
    best = one(result, "read").stores[0].estimate
    assert f"95 % interval {number(best.low)} to {number(best.high)}" in first
    assert second.startswith(
        "What would change it: Parquet files would come first by its means if "
    )
    missing = "rate with a slow node, files and directories, time to set up and loss"
    assert f"scanning, aggregation, {missing}" in second
    assert [c.weight for c in result.criteria if c.name == "read"] == [1.0]
    assert sum(c.weight for c in result.criteria) == 1.0


def test_weights_of_any_size_are_proportions(embedded: Tables) -> None:
    small = verdict(weighing(embedded, read=1, load=1))
    for size in (1e-300, 1e300, 1.5e308):
        result = verdict(weighing(embedded, read=size, load=size))
        assert result.recommendation == small.recommendation
        assert result.scores == small.scores
    message = " ".join(verdict(weighing(embedded, read=1e300, load=1)).recommendation.sentences)
    assert "weights of 100 % reading and less than 0.01 % loading" in message


def test_weights_turn_the_winner(embedded: Tables) -> None:
    assert verdict(weighing(embedded, read=1, disk=1)).recommendation.choice == "SQLite"
    turned = verdict(weighing(embedded, read=1, disk=9)).recommendation
    assert turned.choice == "Parquet files"
    turn = verdict(weighing(embedded, read=1, disk=1)).recommendation.turn
    assert turn is not None
    for share, winner in ((turn.share - 0.05, "SQLite"), (turn.share + 0.05, "Parquet files")):
        weights = {"disk" if turn.criterion == "disk" else "read": share}
        weights["read" if turn.criterion == "disk" else "disk"] = 1 - share
        expected = (
            winner if turn.share > turn.now else ("SQLite", "Parquet files")[winner[0] == "S"]
        )
        assert verdict(weighing(embedded, **weights)).recommendation.choice == expected


def test_weights_of_zero_or_unknown_criteria_are_as_none(embedded: Tables) -> None:
    plain = verdict(embedded)
    assert not plain.weighted
    for weights in ({"read": 0.0}, {"aggregate": 3.0}, {"nonsense": 1.0}):
        result = verdict(weighing(embedded, **weights))
        assert result.recommendation == plain.recommendation
        assert not result.weighted
    message = " ".join(verdict(weighing(embedded, aggregate=3, read=1)).text)
    assert "Of the study's weights aggregate could not count" in message


def test_equal_stores_cannot_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = (20_000, 5_000, 100)
    monkeypatch.setattr(synthetic, "SPEEDS", {"sqlite": same, "duckdb": same})
    synthetic.make_study(tmp_path / "s", engines=["sqlite", "duckdb"], workers=[1])
    result = verdict(tables_of(tmp_path / "s"))
    message = result.recommendation
    assert message.choice == ""
    assert set(message.among) == {"SQLite", "DuckDB"}
    assert "no store can be preferred" in result.finding
    assert "cannot be told apart" in result.finding
    assert all(s.rank == 1 for c in result.criteria for s in c.stores)
    assert message.repeats is None or message.repeats > 2
    # What is equal for all has no weight.
    assert one(result, "disk").weight == 0


def test_single_runs_recommend_nothing(tmp_path: Path) -> None:
    short: dict[str, Any] = {"workers": [1], "repeats": 1, "read_seconds": 2.0, "scale": 20.0}
    synthetic.make_study(tmp_path / "s", engines=["sqlite", "parquet"], **short)
    tables = tables_of(tmp_path / "s")
    assert {"one_repeat", "short_phase"} <= {w.code for w in tables.warnings}
    assert set(one(verdict(tables), "read").leaders) == {"SQLite", "Parquet files"}
    # A size is counted, so one run is enough to compare it.
    assert one(verdict(tables), "disk").leaders == ("Parquet files",)
    for weighted in (tables, weighing(tables, read=3, disk=1)):
        result = verdict(weighted)
        assert result.recommendation.choice == ""
        assert "single runs do not tell how much scores differ from run to run" in result.finding
        assert "clear is only Parquet files for space on disk" in result.finding
        assert "`repeats: 3` or more" in result.text[0]


def test_space_alone_of_single_runs_is_no_ground_unless_the_study_says_so(tmp_path: Path) -> None:
    synthetic.make_study(
        tmp_path / "s", engines=["sqlite", "parquet"], workers=[1], repeats=1, phases=["write"]
    )
    tables = tables_of(tmp_path / "s")
    nothing = {name: getattr(tables, name).iloc[:0] for name in ("summary", "latency_summary")}
    bare = replace(tables, **nothing, judged={})
    result = verdict(bare)
    assert [c.name for c in result.criteria] == ["disk"]
    assert result.recommendation.choice == ""
    assert "no ground for a choice" in result.finding
    assert verdict(weighing(bare, disk=1)).recommendation.choice == "Parquet files"


def test_one_store_alone_and_none(embedded: Tables, tmp_path: Path) -> None:
    result = verdict(only(embedded, engine=["sqlite", "null"]))
    assert result.recommendation.choice == ""
    assert "only SQLite can be judged" in result.finding
    assert "Results of another store" in result.text[0]
    (table,) = verdict_tables(result)
    assert "score" not in " ".join(table.columns)
    synthetic.make_failed(
        tmp_path / "none", {**{"engine": "sqlite"}, "workers": 1}, 1, "out of memory"
    )
    nothing = verdict(tables_of(tmp_path / "none"))
    assert "no store can be judged" in nothing.finding
    assert nothing.criteria == []
    assert table_of(nothing).empty
    assert list(table_of(nothing).columns) == list(COLUMNS)
    assert len(nothing.recommendation.sentences) == 2
    json.dumps(verdict_data(nothing), allow_nan=False)


def test_what_one_choice_lacks_does_not_count_unless_the_study_weighs_it(embedded: Tables) -> None:
    summary = embedded.summary
    lacking = (summary["engine"] == "parquet") & (summary["phase"] == "read")
    times = embedded.latency_summary
    slow = (times["engine"] == "parquet") & (times["phase"] == "read")
    partly = replace(embedded, summary=summary[~lacking], latency_summary=times[~slow])
    result = verdict(partly)
    assert one(result, "read").weight == 0
    assert "reading, latency at load, scaling and cost did not count" in " ".join(result.text)
    assert one(result, "read").sentence.startswith("Reading: only SQLite")
    # Weighed with what both have, only that can be compared.
    weighed = verdict(weighing(partly, read=1, disk=1))
    assert one(weighed, "disk").weight == 1
    assert "Of the study's weights read could not count" in " ".join(weighed.text)


def test_failed_and_wrong_choices_are_in_no_rank(embedded: Tables) -> None:
    failed = [FailedTrial("t", 1, levels(embedded, "parquet"), "no room", "", 2)]
    results = replace(embedded.results, failed=failed)
    result = verdict(replace(embedded, results=results))
    assert dict(result.set_aside) == {"Parquet files": "1 of its trials failed (no room)"}
    assert {s.label for c in result.criteria for s in c.standings} == {"SQLite"}
    assert "Parquet files is set aside: 1 of its trials failed (no room)." in result.text


# Load and servers ---------------------------------------------------------------------------------


def step_rows(tables: Tables, engine: str, rate: float, p99: float) -> dict[str, Any]:
    return {
        **levels(tables, engine),
        **{"phase": "read", "step": int(rate), "operation": ALL, "clients": 4.0, "rate": rate},
        **{"planned": math.nan, "other": "", "measure": "response_p99", "unit": "s"},
        **{**estimate(p99), "error": 0.05, "freedom": 4.0},
    }


def test_latency_is_compared_at_the_highest_load_that_both_had(embedded: Tables) -> None:
    rows = [
        step_rows(embedded, "sqlite", 1000, 0.001),
        step_rows(embedded, "sqlite", 4000, 0.002),
        step_rows(embedded, "sqlite", 9000, 0.900),
        step_rows(embedded, "parquet", 1000, 0.010),
        step_rows(embedded, "parquet", 4000, 0.500),
    ]
    tables = replace(embedded, steps=pd.DataFrame(rows))
    figures = latency(tables)
    assert figures is not None
    assert figures.about == "p99 response, phase read, 4,000 operations/s asked"
    assert dict(zip(figures.rows["engine"], figures.rows["mean"], strict=True)) == {
        "sqlite": 0.002,
        "parquet": 0.5,
    }
    assert one(verdict(tables), "latency").leaders == ("SQLite",)


def test_scaling_takes_the_fastest_configuration_not_the_one_that_scales_best(
    servers: Tables,
) -> None:
    figures = scaling(servers)
    assert figures is not None
    assert figures.about == "efficiency, phase write, 2 nodes against 1"
    standing = one(verdict(servers), "scaling").of("PostgreSQL")
    assert standing is not None
    assert standing.estimate.mean == pytest.approx(2**-0.3, rel=0.1)
    rows = figures.rows
    rates = servers.summary
    for row in rows.to_dict("records"):
        mine = rates[(rates["engine"] == row["engine"]) & (rates["nodes"] == 2)]
        mine = mine[(mine["phase"] == "write") & (mine["measure"] == "documents_per_s")]
        assert row["chosen_by"] == mine["mean"].item()


def test_an_interval_alone_gives_its_error_back() -> None:
    result = from_interval(estimate(100.0, 0.2))
    assert math.exp(1.959964 * result["error"]) == pytest.approx(1.2)
    unknown = from_interval({**estimate(100.0), "low": math.nan, "resampled": "none"})
    assert math.isnan(unknown["error"])


def test_setup_of_servers_leaves_the_queue_out_and_embedded_stores_need_none(
    servers: Tables,
) -> None:
    figures = setup(servers)
    assert figures is not None
    rows = figures.rows[figures.rows["engine"] == "postgres"]
    message = servers.sessions.merge(servers.trials[["trial", "engine"]], on="trial")
    waited = message["formed_time"] - message["queue_time"].fillna(0)
    assert rows["mean"].min() == pytest.approx(
        waited[message["engine"] == "postgres"].min(), rel=0.2
    )
    criterion = one(verdict(servers), "setup")
    assert criterion.leaders == ("SQLite",)
    assert criterion.of("SQLite").note == "no servers are needed"  # type: ignore[union-attr]
    # All below a minute: nothing to choose by.
    assert criterion.weight == 0
    message = verdict(weighing(servers, setup=1))
    assert message.recommendation.choice == ""
    assert (
        "their scores are equal (time to set up below 60.0 s is not told apart)" in message.finding
    )


def test_slow_node_is_the_share_of_the_rate_that_is_left(servers: Tables) -> None:
    def row(engine: str, slowed: int, mean: float) -> dict[str, Any]:
        at = levels(servers, engine, nodes=2.0)
        step = {"phase": "read", "step": slowed, "slowed_nodes": slowed, "unit": "operations/s"}
        return {**at, **step, "slow": "cpu 20 %" if slowed else "", **estimate(mean, 0.02)}

    rows = [
        *(row("postgres", 0, 1000), row("postgres", 1, 600), row("postgres", 2, 100)),
        *(row("mongodb", 0, 800), row("mongodb", 1, 200)),
    ]
    tables = replace(servers, slowdown=pd.DataFrame(rows))
    figures = slow_node(tables)
    assert figures is not None
    assert figures.about == "1 of 2 nodes slowed: cpu 20 %, phase read"
    assert list(figures.rows["mean"]) == pytest.approx([0.25, 0.6])
    assert list(figures.rows["source_row"]) == ["3-4", "0-1"]
    half = math.hypot(math.log(1.02), math.log(1.02))
    assert figures.rows["high"].iloc[1] == pytest.approx(0.6 * math.exp(half), rel=1e-6)
    assert one(verdict(tables), "slow_node").leaders == ("PostgreSQL",)


def test_loss_is_per_crash_and_none_lost_has_its_bound(servers: Tables) -> None:
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
    figures = loss(replace(servers, crashes=crashes))
    assert figures is not None
    result = {row["engine"]: row for row in figures.rows.to_dict("records")}
    # Each trial had two crashes.
    assert result["mongodb"]["mean"] == pytest.approx(math.sqrt(20 * 22))
    assert result["postgres"]["mean"] == 0
    assert result["postgres"]["note"] == (
        "nothing lost in 4 crashes; at most 53 % of crashes lose any"
    )
    assert result["postgres"]["source_row"] == "0-3"
    # No interval: nothing lost in so few crashes is not shown to be better.
    criterion = one(verdict(replace(servers, crashes=crashes)), "loss")
    assert set(criterion.leaders) == {"PostgreSQL", "MongoDB"}


def test_losses_of_relaxed_stores_in_crashes_are_a_figure_and_set_nobody_aside(
    servers: Tables,
) -> None:
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


def test_the_page_says_rank_weight_and_source_in_words(embedded: Tables) -> None:
    (table,) = verdict_tables(verdict(weighing(embedded, read=3, disk=1)))
    heads = " | ".join(table.columns)
    assert "reading, documents/s, weight 75%" in heads
    sqlite = next(row for row in table.rows if row[0].text == "SQLite")
    read = sqlite[next(i for i, c in enumerate(table.columns) if c.startswith("reading"))]
    assert read.note.startswith("rank 1, best; ")
    assert read.best
    assert read.source.startswith("summary:")
    disk = sqlite[next(i for i, c in enumerate(table.columns) if c.startswith("space"))]
    assert disk.note.startswith("rank 2")
    assert not disk.best


def test_every_known_criterion_has_a_place(embedded: Tables) -> None:
    result = verdict_data(verdict(embedded))
    sensitivity: Any = result["sensitivity"]
    criteria: Any = result["criteria"]
    assert {*sensitivity["not_measured"], *(c["name"] for c in criteria)} == set(KEYS)


def test_where_no_search_found_a_rate_the_rest_is_judged(embedded: Tables) -> None:
    trials = embedded.trials
    trial = trials.loc[trials["engine"] == "sqlite", "trial"].iloc[0]
    search = {"clients": 3, "percentile": 99.0, "limit_ms": 50.0, "time": "response", "steps": 4}
    request = {"trial": trial, "phase": "read", "first_step": 0, **search}
    searches = pd.DataFrame([{**request, "rate": None, "verified": False, "bounded": True}])
    assert embedded.highest_rates.empty
    result = verdict(replace(embedded, searches=searches))
    assert [c.name for c in result.criteria] == [c.name for c in verdict(embedded).criteria]
    assert any("found no rate" in sentence for sentence in result.text)


# Files and directories ----------------------------------------------------------------------------


def test_a_few_files_more_are_no_reason(embedded: Tables) -> None:
    before = verdict(embedded)
    result = verdict(counted(embedded, sqlite=6, parquet=9_000))
    criterion = one(result, "inodes")
    assert criterion.leaders == ("SQLite",)
    assert criterion.weight == 0, "they count alike"
    assert result.recommendation.sentences[0] == before.recommendation.sentences[0]
    assert [s.relative for s in result.scores] == [s.relative for s in before.scores]
    assert "SQLite, 6 (with 1 worker; at least 12 metadata operations in the load)" in (
        criterion.sentence
    )
    assert "the best has 6 instead of 9,000." in criterion.sentence


def test_a_million_files_count_a_little(embedded: Tables) -> None:
    result = verdict(counted(embedded, sqlite=6, parquet=1_119_820))
    shares = {c.name: c.weight for c in result.criteria if c.weight}
    assert shares["inodes"] == pytest.approx(shares["disk"] / 10)
    assert "the best has 6 instead of 1.1 million." in one(result, "inodes").sentence
    (text,) = [line for line in result.text if line.startswith("Scores are")]
    assert "here with equal weights of loading, reading and space on disk, and 10 % of that" in text
    assert "for files and directories" in text
    alone = verdict(weighing(counted(embedded, sqlite=6, parquet=1_119_820), inodes=1))
    assert alone.recommendation.choice == "SQLite"
    # Ten thousand are the least that counts: the ratio is not 187,000.
    second = alone.scores[1].relative.mean
    assert second == pytest.approx(10_000 / 1_119_820)


def test_files_of_the_largest_volume_count(embedded: Tables) -> None:
    tables = counted(embedded, sqlite=40_000, parquet=20_000)
    sizes = tables.storage_summary.assign(volume=1.0)
    small = sizes[sizes["measure"] == "inodes"].assign(volume=0.5, mean=3.0, low=3.0, high=3.0)
    sizes = pd.concat([sizes, small], ignore_index=True)
    result = verdict(replace(tables, storage_summary=sizes))
    assert [s.estimate.mean for s in one(result, "inodes").stores] == [20_000, 40_000]


def test_the_inputs_are_what_stores_replace(embedded: Tables) -> None:
    tables = only(embedded, workers=1)
    sizes = counted(tables, sqlite=6, parquet=12).storage_summary
    base = sizes[(sizes["measure"] == "inodes") & (sizes["engine"] == "sqlite")]
    base = base.assign(engine="files", mean=1_119_821.0, low=1_119_821.0, high=1_119_821.0)
    sizes = pd.concat([sizes, base], ignore_index=True)
    corpus = {"files": 2_000_000, "bytes": 10**13}
    for known in ({}, {"corpus": corpus}):
        results = replace(tables.results, study={**tables.results.study, "weights": {"read": 1}})
        results = replace(results, study={**results.study, **known})
        result = verdict(replace(tables, storage_summary=sizes, results=results))
        sentence = one(result, "inodes").sentence
        assert "Without any store (SSEARCH files): 1.1 million" in sentence
        assert ("the full corpus has 2,000,000 files" in sentence) == bool(known)
        assert result.answer.beside.endswith("6 files and directories instead of 1.1 million.")
