"""Figures that follow from others: efficiency, what a search found, when loading pays."""

import math

import pandas as pd
from support.results.tables import results_of, samples_of

from storewise.analysis.measure.derived import efficiencies, numeric_factors, pays, times_asked
from storewise.analysis.measure.measures import COLUMNS, question_times
from storewise.analysis.model.columns import (
    ALL,
    EFFICIENCY,
    OTHER,
    PARAMETERS,
    PAYS_FROM,
    QUESTION_TIME,
)
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
    asked |= {"late": 2.0, "empty": 0.01}
    question = pd.DataFrame({"trial": asked.keys(), "value": asked.values()})
    question = question.assign(phase="query", operation="top_genes", measure=QUESTION_TIME)
    load = pd.DataFrame({"trial": ["store", "two", "alone", "empty", "late"]})
    load = load.assign(value=[50.0, 40, 30, 1, 5], phase="write", operation=ALL, measure="duration")
    # What does not load has no documents; the start of servers counts.
    started = load.iloc[:1].assign(phase="session", measure="setup_time", value=10.0)
    frames = [question, load, load.assign(measure="documents"), started, load.assign(phase="read")]
    measures = pd.concat(frames).assign(step=0, unit="s").reindex(columns=list(MEASURES))
    table = pays(measures, results_of(trials))
    # Nobody asked the files with four workers.
    expected = {"store": 60 / (2 - 0.5), "two": 40 / (1 - 0.2), "late": math.inf}
    assert dict(zip(table["trial"], table["value"], strict=True)) == expected
    places = table[["measure", "phase", "step", "operation", "unit"]].drop_duplicates()
    assert places.to_numpy().tolist() == [[PAYS_FROM, "query", 0, "top_genes", "questions"]]
    without = trials[trials["engine"] != "files"]
    assert pays(measures, results_of(without)).empty
    assert [times_asked(n) for n in (0.2, 39.1, 1234.0, math.inf)] == ["1", "40", "1,234", "never"]


def test_efficiency_is_that_of_a_round_against_its_lowest_level():
    names = ["trial", "repeat", "engine", "workers", "replicas", "volume", "value"]
    rows = [
        *(("a", 1, "sqlite", 2, 1, 1, 100.0), ("b", 1, "sqlite", 4, 1, 1, 150.0)),
        *(("c", 1, "sqlite", 8, 1, 1, 300.0), ("d", 2, "sqlite", 2, 1, 1, 200.0)),
        *(("e", 2, "sqlite", 4, 1, 1, 200.0), ("f", 2, "sqlite", 8, 1, 1, 400.0)),
        *(("g", 1, "duckdb", 4, 1, 1, 50.0), ("h", 1, "duckdb", 8, 1, 1, 0.0)),
        # More replicas and more data are no resources.
        *(("i", 1, "mongodb", 2, 1, 1, 9.0), ("j", 1, "mongodb", 2, 2, 1, 9.0)),
        ("k", 1, "mongodb", 2, 1, 0.5, 9.0),
    ]
    table = pd.DataFrame(rows, columns=names)
    place = {"step": 0, "operation": ALL, "unit": "1/s"}
    load = table[["trial", "value"]].assign(**place, phase="write", measure="documents_per_s")
    parsed = load.assign(measure="parse_share", value=0.5)
    # A load is judged by its documents, all else by operations; not by those of one kind, or at a
    # rate that was asked for. A rate of nothing has no ratio.
    own = load.assign(measure="operations_per_s", value=1.0)
    reads = own[own["trial"].isin(["g", "h"])].assign(phase="read", value=[0.5, 0.75])
    asked, kind = reads.assign(rate=5.0, step=1), reads.assign(operation="get", step=2)
    measures = pd.concat([load, own, parsed, reads, asked, kind]).reindex(columns=list(MEASURES))
    result = efficiencies(measures, results_of(table[names[:-1]]))
    assert set(result["measure"]) == {EFFICIENCY} and set(result["unit"]) == {"1"}
    assert result[["trial", "phase", "step", "value", "other"]].to_numpy().tolist() == [
        ["b", "write", 0, 0.75, "workers 4 against 2"],
        ["c", "write", 0, 0.75, "workers 8 against 2"],
        ["e", "write", 0, 0.5, "workers 4 against 2"],
        ["f", "write", 0, 0.5, "workers 8 against 2"],
        ["h", "read", 0, 0.75, "workers 8 against 4"],
    ]


def test_what_a_resource_is():
    levels = {"two": [0.5, 2], "one": [1, 1], "zero": [0, 1], "flag": [True, False]}
    levels |= {"word": ["a", "b"], "gap": [None, 1.0]}
    assert numeric_factors(pd.DataFrame(levels), list(levels)) == ["two"]
