"""Steps of a study: clients spread over processes, sweeps, and the search for a rate."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from storewise.analysis.judge.comparable_steps import closed_steps, open_phases, sentences
from storewise.driver.rate_search import MIN_SERVED, Summary, Tried, highest_rate, judge, next_rate
from storewise.metrics.hdr import bucket_indexes
from storewise.study.sweep import Clients, expand_sweep, take_clients
from storewise.workloads.contract import PhaseParams, SearchParams

# Clients ---------------------------------------------------------------------------------------


@given(st.integers(1, 600), st.integers(1, 6), st.integers(1, 8))
def test_clients_are_spread_evenly_and_numbered_once(total, workers, processes):
    clients = Clients(1, total)
    numbers, counts = [], []
    for worker, process in itertools.product(range(workers), range(processes)):
        start, count = clients.here(worker, workers, process, processes)
        numbers += range(start, start + count)
        counts.append(count)
    per_worker = [sum(counts[at : at + processes]) for at in range(0, len(counts), processes)]
    assert sorted(numbers) == list(range(total))
    assert max(counts) - min(counts) <= 1
    assert max(per_worker) - min(per_worker) <= processes
    if total <= workers * processes:
        assert max(per_worker) - min(per_worker) <= 1
    assert clients.most(workers, processes) == max(counts)
    assert clients.all(workers, processes) == total


def test_threads_are_those_of_each_process():
    clients = Clients(3)
    assert clients.here(1, 2, 1, 2) == (9, 3)
    assert clients.all(2, 2) == 12


def test_a_step_counts_more_than_its_phase():
    assert take_clients({"clients": 8, "rate": 5}, {"threads": 2}, 1) == ({"rate": 5}, Clients(2))
    assert take_clients({"threads": 8}, {"clients": 4}, 1) == ({}, Clients(1, 4))
    assert take_clients({"rate": 1}, {"rate": 2}, 7) == ({"rate": 2}, Clients(7))
    for wrong in (0, -1, True, 1.5, "4", 10**6):
        with pytest.raises(ValueError, match="clients is"):
            take_clients({}, {"clients": wrong}, 1)
    with pytest.raises(ValueError, match="either `threads`"):
        take_clients({}, {"clients": 1, "threads": 1}, 1)


# Sweeps ----------------------------------------------------------------------------------------


def test_a_sweep_is_the_product_of_its_lists_the_first_slowest():
    result = expand_sweep({"operations": [10, 20], "clients": [1, 2]})
    assert [(*step.items(),) for step in result] == [
        (("operations", operations), ("clients", clients))
        for operations in (10, 20)
        for clients in (1, 2)
    ]


def test_what_is_no_sweep_is_refused():
    long = list(range(1, 40))
    for sweep, words in (
        ([1, 2], "must map parameters to lists"),
        ({}, "must map parameters to lists"),
        ({"rate": 5}, "rate must be a list"),
        ({"rate": []}, "rate must be a list"),
        ({"rate": [1, 1]}, "rate has a value twice"),
        ({"search": [{}]}, "cannot vary 'search'"),
        ({"rate": long, "clients": long}, "1521 steps"),
    ):
        with pytest.raises(ValueError, match=words):
            expand_sweep(sweep)


# The search ------------------------------------------------------------------------------------


def search(**changes):
    return SearchParams(**{"limit_ms": 10, "low": 100, "high": 20_000, "steps": 8, **changes})


def follow(params, met):
    """The steps of a search of a store that keeps the limit where `met(rate, step)` is true."""
    tried = []
    while (rate := next_rate(params, tried)) is not None:
        tried.append(Tried(rate, met(rate, len(tried))))
        assert len(tried) <= params.steps
    return tried


@given(st.floats(1, 1e5), st.floats(1.1, 1e4), st.integers(2, 20), st.floats(0.1, 1e9))
def test_a_search_finds_what_a_store_can_do(low, ratio, steps, limit):
    params = search(low=low, high=low * ratio, steps=steps)
    tried = follow(params, lambda rate, _: rate <= limit)
    result = highest_rate(tried)
    assert all(low <= t.rate <= low * ratio for t in tried)
    if limit < low:
        assert result.rate is None
        assert tried[-1].rate == low
        return
    assert result.rate is not None and result.rate <= limit
    assert result.bounded == any(not t.met for t in tried)
    # Each bisection halves the logarithm of the range; the last step is kept for measuring again.
    width = max(math.log(ratio) / 2 ** (steps - 1), math.log(1.02))
    assert result.rate >= min(limit, low * ratio) / math.exp(width) * (1 - 1e-9)
    if result.rate > low:
        assert result.verified


def test_a_rate_that_fails_when_it_is_measured_again_is_not_the_highest_rate():
    # Everything up to 5,000/s is met, but at the last step nothing above 1,000/s is.
    tried = follow(search(steps=6), lambda rate, step: rate <= (5000 if step < 5 else 1000))
    result = highest_rate(tried)
    assert not tried[-1].met and not result.verified
    assert result.rate is not None and result.rate < tried[-1].rate
    # It goes down while there are steps: precision ends the bisection of a narrow range early.
    seen = set()

    def met(rate, step):
        again = rate in seen
        seen.add(rate)
        return rate <= 1045 and not (again and rate > 1030)

    result = highest_rate(follow(search(low=1000, high=1100, steps=12), met))
    assert result.rate is not None and result.rate <= 1030
    assert result.verified


def summary(milliseconds, intended=None, failed=0):
    indexes = bucket_indexes(np.array(milliseconds, dtype=np.int64) * 1_000_000)
    where, counts = np.unique(indexes, return_counts=True)
    due = len(milliseconds) + failed if intended is None else intended
    return Summary(due, len(milliseconds), failed, tuple(where.tolist()), tuple(counts.tolist()))


def test_a_step_is_judged_by_the_summaries_of_all_workers():
    params = search(percentile=90, limit_ms=10)
    fast, slow = summary([1] * 95), summary([20] * 5)
    good = judge(params, 500, [fast, slow])
    assert (good.met, good.served, good.percentile_ms) == (True, 1, pytest.approx(1, rel=0.001))
    late = judge(params, 500, [fast, summary([20] * 50)])
    assert (late.met, late.percentile_ms) == (False, pytest.approx(20, rel=0.001))
    # Failed and unserved operations were not served, however fast the others were.
    assert judge(params, 500, [summary([1] * 98, failed=2)]).met
    assert MIN_SERVED == 0.98
    assert not judge(params, 500, [summary([1] * 97, failed=3)]).met
    assert not judge(params, 500, [summary([1] * 97, intended=100)]).met
    assert not judge(params, 500, [summary([], intended=100)]).met
    assert judge(params, 500, [summary([], intended=0), summary([1] * 9)]).met


def test_a_search_sets_rate_and_time_and_a_warmup_is_shorter_than_its_phase():
    given = {"search": search(seconds=3).model_dump()}
    params = PhaseParams.model_validate({**given, "warmup": 1})
    assert (params.rate, params.seconds, params.operations) == (100, 3, None)
    for wrong in ({"operations": 5}, {"rate": 5}, {"seconds": 5}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            PhaseParams.model_validate({**given, **wrong})
    for short in ({"seconds": 2, "warmup": 2}, {**given, "warmup": 3}):
        with pytest.raises(ValidationError, match="nothing would be measured"):
            PhaseParams.model_validate(short)


# What of steps can be compared ------------------------------------------------------------------


NONE = float("nan")


def summary_of(means):
    """Rows of a summary of phase c: (engine, step) -> operations/s."""
    rows = [(engine, "c", step, mean) for (engine, step), mean in means.items()]
    return pd.DataFrame(rows, columns=["engine", "phase", "step", "mean"])


def at(steps, rows):
    """The rows with the columns that say what their step did."""
    return rows.merge(steps.drop(columns="operation"), on=["phase", "step"], how="left")


def told_steps(*steps):
    """Rows of `tables.steps` of phase c: (clients, rate, other) of each step."""
    rows = [("c", n, "all", clients, rate, NONE, other) for n, (clients, rate, other) in
            enumerate(steps)]  # fmt: skip
    columns = ["phase", "step", "operation", "clients", "rate", "planned", "other"]
    return pd.DataFrame(rows, columns=columns)


def test_stores_are_compared_at_the_same_question_with_any_number_of_clients():
    # The ceiling does not choose the question.
    rows = summary_of(
        {("a", 0): 10, ("a", 1): 20, ("a", 2): 90, ("b", 0): 15, ("b", 1): 70, ("b", 2): 1}
        | {("null", 0): 500}
    )
    zipfian = "distribution zipfian"
    steps = told_steps(
        (1.0, NONE, "distribution uniform"), (1.0, NONE, zipfian), (4.0, NONE, zipfian)
    )
    result = closed_steps(at(steps, rows))
    found = list(zip(result["engine"], result["step"], strict=True))
    assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert list(result["with"]) == [f"{zipfian}, 1 client", f"{zipfian}, 4 clients"] * 2


def test_a_target_rate_ranks_no_store():
    rows = summary_of({("a", 0): 99, ("a", 1): 700, ("b", 0): 100, ("b", 1): 100})
    steps = told_steps((2.0, 100.0, ""), (2.0, 900.0, ""))
    assert closed_steps(at(steps, rows)).empty
    assert open_phases(steps) == {"c"}
    mixed = told_steps((2.0, NONE, ""), (2.0, 900.0, ""))
    assert set(closed_steps(at(mixed, rows))["step"]) == {0}
    assert open_phases(mixed) == set()
    # A phase of one step is not among the steps.
    assert list(closed_steps(at(steps.iloc[:0], rows))["with"]) == [""] * 4


def test_searches_without_an_answer_are_said():
    there = pd.DataFrame({"trial": ["x", "y", "z"], "phase": "c", "measure": "highest_rate"})
    trials = pd.DataFrame({"trial": ["x", "y", "z"], "engine": ["sqlite", "sqlite", "duckdb"]})
    steps = told_steps((2.0, 50.0, ""))
    tables = SimpleNamespace(
        steps=steps, searched={"c"}, throughput=there, measures=there.iloc[1:], trials=trials
    )
    (text,) = sentences(tables)
    assert "Phase c: searches in 1 of 2 trials of SQLite found no rate" in text
    tables.searched = set()
    (text,) = sentences(tables)
    assert "phase c: not ranked" in text
