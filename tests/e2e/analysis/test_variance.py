"""Analysis of variance and Tukey's pairs: cases worked out by hand, other implementations, and what
must not matter."""

from dataclasses import replace

import pytest
from support.results.made import GROUP

from storewise.analysis.judge.anova import ALL_FIGURES, COLUMNS, PAIRS, study_analyses
from storewise.analysis.stats.anova_groups import group_warnings
from storewise.errors import AnalysisError

pytestmark = GROUP


def asked(**changed):
    return replace(ALL_FIGURES, **changed)


@pytest.fixture
def tables(made):
    return made.tables(engines=["null", "sqlite", "duckdb"], repeats=3)


def test_a_study_has_a_table_per_phase_and_measure(tables):
    table, pairs = tables.judged["variance"], tables.judged["pairs"]
    assert list(table.columns) == list(COLUMNS)
    assert list(pairs.columns) == list(PAIRS)
    # The null engine is no store.
    assert set(table["engines"]) == {"duckdb, sqlite"}
    measures = {"documents_per_s", "operations_per_s", "insert_documents_per_s"}
    # Of fewer than 1,000 inserts there is no p99.
    times = {"insert_service_time_p50", "get_service_time_p50", "get_service_time_p99"}
    assert set(table["measure"]) == measures | times
    one = table[table["measure"] == "operations_per_s"].set_index("term")
    assert list(one.index) == ["engine", "workers", "engine:workers", "Residual"]
    assert list(one["df"]) == [1, 1, 1, 8]
    assert one["log"].all() and (one["n"] == 12).all()
    # The made-up stores read 9,000 and 700 operations/s.
    assert one.at["engine", "p"] < 1e-9
    read = pairs[pairs["measure"] == "operations_per_s"].iloc[0]
    assert (read["a"], read["b"], bool(read["reject"])) == ("duckdb", "sqlite", True)
    assert read["ratio"] == pytest.approx(700 / 9000, rel=0.1)
    assert read["ratio_low"] < read["ratio"] < read["ratio_high"]


def test_what_a_study_can_be_asked(tables):
    result = study_analyses(tables, asked(response="p99", factors=("workers",)), by=["engine"])
    assert {(g.by["measure"], g.by["engine"]) for g in result.groups} == {
        ("get_service_time_p99", engine) for engine in ("sqlite", "duckdb")
    }
    pooled = study_analyses(tables, asked(response="operations_per_s", factors=("workers",)))
    assert all("engine vary, too" in text for text in group_warnings(pooled.groups)[:1])
    for spec, message in (
        (asked(factors=("worker",)), "no factor 'worker'.*workers"),
        (asked(response="operation_per_s"), "no measure 'operation_per_s'.*operations_per_s"),
        (asked(numeric=("consistency",)), "are not numbers"),
    ):
        with pytest.raises(AnalysisError, match=message):
            study_analyses(tables, spec)
    with pytest.raises(AnalysisError, match="no phase 'red'"):
        study_analyses(tables, phase="red")
    with pytest.raises(AnalysisError, match="in --factors and in --by"):
        study_analyses(tables, asked(factors=("engine",)), by=["engine"])


def test_a_study_that_carries_no_variance_has_empty_tables(made):
    tables = made.tables(engines=["sqlite", "duckdb"], workers=[1], repeats=1)
    assert tables.judged["variance"].empty and list(tables.judged["variance"]) == list(COLUMNS)
    assert tables.judged["pairs"].empty and list(tables.judged["pairs"]) == list(PAIRS)
    reasons = {reason for _, reason in study_analyses(tables).not_possible}
    assert reasons == {"no levels were repeated (`repeats: 2` or more in the study)"}


def test_servers_and_embedded_stores_have_tables_of_their_own(made):
    """Nodes are a factor of servers only, so it is not crossed with the engine."""
    tables = made.tables(engines=["sqlite", "postgres"], workers=[1], repeats=2, nodes=[1, 2])
    table = tables.judged["variance"]
    read = table[table["measure"] == "operations_per_s"]
    assert {e: list(g["term"]) for e, g in read.groupby("engines")} == {
        "postgres": ["nodes", "Residual"]
    }
