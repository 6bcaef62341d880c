"""Figures that follow from others: efficiency, what a search found, when loading pays."""

import math

import numpy as np
import pandas as pd
import pytest
from support.results.tables import results_of, samples_of

from storewise.analysis.measure.derived import efficiencies, pays, times_asked
from storewise.analysis.measure.measures import COLUMNS
from storewise.analysis.measure.questions import question_times
from storewise.analysis.model.columns import ALL, EFFICIENCY, OTHER, PARAMETERS, PAYS_FROM
from storewise.metrics.schema import Sample

MEASURES = pd.DataFrame(columns=[*COLUMNS, *PARAMETERS, OTHER])


def test_times_of_questions_are_of_all_clients_and_leave_out_the_warm_up():
    where = {"operation": "top_genes", "worker": 0, "process": 0}
    rows = [
        ("operations", 1.0, 0, True),
        ("operations", 4.0, 1, False),
        ("service_time_sum", 9.0, 0, True),
        ("service_time_sum", 2.0, 1, False),
        ("operations", 5.0, None, False),
        ("service_time_sum", 11.0, None, False),
    ]
    samples = samples_of(
        [
            Sample("query", metric, value, "1", second=second, warmup=warmup, **where)
            for metric, value, second, warmup in rows
        ]
    )
    assert question_times(samples, {})["value"].to_list() == [0.5]
    # Two clients get an answer twice as often as each of them waits.
    assert question_times(samples, {("t", "query", 0): 2})["value"].to_list() == [0.25]


def test_files_at_their_fastest_are_what_a_store_must_beat():
    """With the same clients, whatever else the files were asked with."""
    trials = pd.DataFrame(
        [
            ("plain", "files", 1, "none"),
            ("slow", "files", 1, "align.gene"),
            ("many", "files", 2, "none"),
            ("store", "sqlite", 1, "none"),
            ("two", "sqlite", 2, "none"),
            ("alone", "sqlite", 4, "none"),
            ("late", "duckdb", 1, "none"),
            ("empty", "null", 1, "none"),
        ],
        columns=["trial", "engine", "workers", "index"],
    )
    asked = {"plain": 2.0, "slow": 6.0, "many": 1.0, "store": 0.5, "two": 0.2, "alone": 0.1}
    asked["late"] = 2.0
    question = pd.DataFrame({"trial": asked.keys(), "value": asked.values()})
    question = question.assign(phase="query", step=0, operation="top_genes", unit="s")
    load = pd.DataFrame({"trial": ["store", "two", "alone", "empty", "late"]})
    load = load.assign(value=[60.0, 40, 30, 1, 5], unit="s")
    table = pays(question, load, MEASURES, results_of(trials))
    counts = table[table["measure"] == PAYS_FROM].set_index("trial")["value"].to_dict()
    # 60 / (2 - 0.5) and 40 / (1 - 0.2); nobody asked the files with four workers.
    assert counts == {"store": pytest.approx(40), "two": pytest.approx(50), "late": math.inf}
    without = trials[trials["engine"] != "files"]
    assert pays(question, load, MEASURES, results_of(without)).empty
    assert [times_asked(n) for n in (0.2, 39.1, 1234.0, math.inf)] == ["1", "40", "1,234", "never"]


def test_efficiency_is_that_of_a_round_against_its_lowest_level():
    trials = pd.DataFrame(
        {
            "trial": list("abcdefgh"),
            "repeat": [1, 1, 1, 2, 2, 2, 1, 1],
            "engine": ["sqlite"] * 6 + ["duckdb"] * 2,
            "workers": [2, 4, 8, 2, 4, 8, 4, 8],
            "nodes": np.nan,
        }
    )
    rates = [100.0, 150.0, 300.0, 200.0, 200.0, 400.0, 50.0, 0.0]
    table = pd.DataFrame({"trial": trials["trial"], "value": rates, "unit": "documents/s"})
    table = table.assign(phase="write", step=0, operation=ALL, measure="documents_per_s")
    own = table.assign(measure="operations_per_s", value=1.0)
    parsed = table.assign(measure="parse_share", value=0.5)
    measures = pd.concat([table, own, parsed]).reindex(columns=list(MEASURES))
    result = efficiencies(measures, results_of(trials))
    assert set(result["measure"]) == {EFFICIENCY}
    shown = {row.trial: (row.value, row.other) for row in result.itertuples()}
    # A load is judged by its documents; a rate of nothing has no ratio.
    assert shown == {
        "b": (pytest.approx(0.75), "workers 4 against 2"),
        "c": (pytest.approx(0.75), "workers 8 against 2"),
        "e": (pytest.approx(0.5), "workers 4 against 2"),
        "f": (pytest.approx(0.5), "workers 8 against 2"),
    }
