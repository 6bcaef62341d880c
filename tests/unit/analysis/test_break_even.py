"""After how many questions a store has paid for its load: by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from support.results.tables import results_of, samples_of

from storewise.analysis.measure.breakeven import (
    COLUMNS,
    breakeven,
    question_times,
    questions_until_it_pays,
    times_asked,
)
from storewise.analysis.stats.intervals import Estimate
from storewise.metrics.schema import Sample


def estimate(values):
    """The mean of repeats that share their spread with nobody."""
    logs = np.log(values)
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    mean = math.exp(logs.mean())
    return Estimate.of(len(values), mean, error, len(values) - 1.0)


def test_break_even_by_hand():
    def exact(value):
        return Estimate(3, value, value, value, 0.0, 2.0)

    result = questions_until_it_pays(exact(60.0), exact(2.0), exact(0.5))
    assert (result.mean, result.low, result.high) == pytest.approx((40.0, 40.0, 40.0))
    assert questions_until_it_pays(exact(60.0), exact(2.0), exact(2.0)).mean == math.inf
    never = questions_until_it_pays(exact(60.0), exact(2.0), exact(3.0))
    assert (never.low, never.mean) == (math.inf, math.inf)
    # Repeats that differ: the interval holds the mean and widens with their spread.
    load, store = estimate([50.0, 60.0, 72.0]), estimate([0.5, 0.5, 0.5])
    wide = questions_until_it_pays(load, estimate([1.8, 2.0, 2.2]), store)
    narrow = questions_until_it_pays(load, estimate([2.0, 2.0, 2.0]), store)
    assert wide.low < wide.mean < wide.high < math.inf
    assert narrow.low < narrow.mean < narrow.high
    assert wide.error > narrow.error
    assert wide.freedom > narrow.freedom
    # Only the load spreads: the interval of N is that of the load over the gain.
    gain = 1.5
    assert (narrow.low, narrow.high) == pytest.approx((load.low / gain, load.high / gain))
    # A gain that may be none has no upper end; one run has no interval.
    doubtful = questions_until_it_pays(load, estimate([0.4, 0.6, 1.2]), store)
    assert doubtful.high == math.inf
    assert 0 < doubtful.low < doubtful.mean < math.inf
    single = questions_until_it_pays(estimate([60.0]), estimate([2.0]), estimate([0.5]))
    assert single.mean == pytest.approx(40.0)
    assert not single.known()
    assert [times_asked(n) for n in (0.2, 39.1, 1234.0, math.inf)] == ["1", "40", "1,234", "never"]


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
            ("empty", "null", 1, "none"),
        ],
        columns=["trial", "engine", "workers", "index"],
    )
    asked = {"plain": 2.0, "slow": 6.0, "many": 1.0, "store": 0.5, "two": 0.2, "alone": 0.1}
    question = pd.DataFrame({"trial": asked.keys(), "value": asked.values()})
    question = question.assign(phase="query", step=0, operation="top_genes", unit="s")
    load = pd.DataFrame({"trial": ["store", "two", "alone", "empty"], "value": [60.0, 40, 30, 1]})
    table = breakeven(question, load.assign(unit="s"), results_of(trials))
    assert list(table.columns) == ["engine", "workers", "index", *COLUMNS]
    # 60 / (2 - 0.5) and 40 / (1 - 0.2); nobody asked the files with four workers.
    shown = table[["workers", "load", "files_question", "store_question", "mean"]]
    assert shown.to_numpy().tolist() == pytest.approx(
        np.array([[1, 60, 2, 0.5, 40], [2, 40, 1, 0.2, 50]])
    )
    without = trials[trials["engine"] != "files"]
    assert breakeven(question, load.assign(unit="s"), results_of(without)).empty
