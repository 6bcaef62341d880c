"""Analysis of variance and Tukey's pairs: cases worked out by hand, other implementations, and what
must not matter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, Made

from storewise.analysis.judge.anova import COLUMNS, PAIR_COLUMNS, Selection, study_analyses
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.anova import Specification
from storewise.analysis.stats.anova_groups import group_warnings, one_group
from storewise.errors import AnalysisError


def test_failed_checks_name_a_remedy() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"g": np.repeat(list("abc"), 40)})
    table["y"] = rng.lognormal(mean=np.repeat([0, 2, 4], 40), sigma=1.0)
    raw, logged, robust = (
        group_warnings([one_group(table, {}, Specification("y", ("g",), log=log, robust=hc))])
        for log, hc in ((False, False), (True, False), (False, True))
    )
    assert [t.split(" (")[0] for t in raw] == [
        "residuals are not normal",
        "residuals do not spread alike",
    ]
    assert "remedy: --log-response" in raw[0]
    assert "remedy: --log-response or --robust" in raw[1]
    assert logged == []
    assert "robust against that" in robust[1]


pytestmark = GROUP


@pytest.fixture
def tables(made: Made) -> Tables:
    return made.tables(engines=["null", "sqlite", "duckdb"], repeats=3)


def test_a_study_has_a_table_per_phase_and_measure(tables: Tables) -> None:
    table, pairs = tables.judged["variance"], tables.judged["tukey"]
    assert list(table.columns) == list(COLUMNS)
    assert list(pairs.columns) == list(PAIR_COLUMNS)
    # The null engine is no store.
    assert set(table["engines"]) == {"duckdb, sqlite"}
    assert set(zip(table["phase"], table["measure"], strict=True)) == {
        ("write", "documents_per_s"),
        ("write", "insert_documents_per_s"),
        ("write", "insert_service_time_p50"),
        ("write", "insert_service_time_p99"),
        ("read", "operations_per_s"),
        ("read", "get_service_time_p50"),
        ("read", "get_service_time_p99"),
    }
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


def test_what_a_study_can_be_asked(tables: Tables) -> None:
    result = study_analyses(tables, Selection(response="p99", factors=("workers",), by=("engine",)))
    assert {(g.by["measure"], g.by["engine"]) for g in result.groups} == {
        (m, e)
        for m in ("get_service_time_p99", "insert_service_time_p99")
        for e in ("sqlite", "duckdb")
    }
    pooled = study_analyses(tables, Selection(response="operations_per_s", factors=("workers",)))
    assert all("engine vary, too" in text for text in group_warnings(pooled.groups)[:1])
    for selection, message in (
        (Selection(factors=("worker",)), "no factor 'worker'.*workers"),
        (Selection(phase="red"), "no phase 'red'.*read"),
        (Selection(response="operation_per_s"), "no measure 'operation_per_s'.*operations_per_s"),
        (Selection(numeric=("consistency",)), "are no numbers"),
        (Selection(factors=("engine",), by=("engine",)), "in --factors and in --by"),
    ):
        with pytest.raises(AnalysisError, match=message):
            study_analyses(tables, selection)


def test_a_study_that_carries_no_variance_has_empty_tables(made: Made) -> None:
    tables = made.tables(engines=["sqlite", "duckdb"], workers=[1], repeats=1)
    assert tables.judged["variance"].empty and list(tables.judged["variance"]) == list(COLUMNS)
    assert tables.judged["tukey"].empty and list(tables.judged["tukey"]) == list(PAIR_COLUMNS)
    reasons = {reason for _, reason in study_analyses(tables, Selection()).not_possible}
    assert reasons == {"no levels were repeated (`repeats: 2` or more in the study)"}


def test_servers_and_embedded_stores_have_tables_of_their_own(made: Made) -> None:
    """Nodes are a factor of servers only, so it is not crossed with the engine."""
    tables = made.tables(engines=["sqlite", "postgres"], workers=[1], repeats=2, nodes=[1, 2])
    table = tables.judged["variance"]
    read = table[table["measure"] == "operations_per_s"]
    assert {e: list(g["term"]) for e, g in read.groupby("engines")} == {
        "postgres": ["nodes", "Residual"]
    }
