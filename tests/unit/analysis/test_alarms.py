"""Alarms that chance could raise: silent in quiet studies, raised where something is wrong."""

import runpy

import numpy as np
import pandas as pd
import pytest
from support.paths import ROOT

from storewise.analysis.common.warnings import often
from storewise.analysis.measure.host_load import canary_warnings


@pytest.mark.parametrize("trials", [15, 60, 500])
def test_no_alarm_is_raised_in_more_than_a_few_quiet_studies(trials):
    """`benchmarks/alarms.py` has more studies; here one in ten may have one."""
    bench = runpy.run_path(str(ROOT / "benchmarks" / "alarms.py"))
    assert bench["TRIALS"] == (15, 60, 500)
    shares = bench["raised"](np.random.default_rng(33), 10, trials)
    assert list(shares.index) == ["unsteady_host", "busy_host", "client_bound", "short_phase"]
    assert shares.to_numpy().max() <= 0.1


def test_where_the_client_was_the_limit_is_told_once():
    bench = runpy.run_path(str(ROOT / "benchmarks" / "alarms.py"))
    (warning,) = bench["bound"](15, lambda n: np.full(n, 2.0))  # a tenth of the time to itself
    assert "store 0 (read), store 1 (read)" in warning.message
    assert "10% of the time was the client's own work" in warning.message
    assert bench["bound"](15, lambda n: np.full(n, 1.99)) == []


@pytest.mark.parametrize(
    ("cases", "of", "alarm"),
    [(0, 0, False), (1, 1, True), (2, 3, False), (3, 3, True), (2, 15, False), (3, 15, True),
     (49, 500, False), (50, 500, True)],
)  # fmt: skip
def test_how_often_is_often(cases, of, alarm):
    assert often(cases, of) == alarm


@pytest.mark.parametrize(("slow", "alarm"), [(2, False), (3, True)])
def test_a_machine_that_was_slow_for_a_while_is_told_once(slow, alarm):
    speeds = [100.0] * (15 - slow) + [45.0] * slow
    columns = {"phase": "write", "unit": "1/s"}
    table = pd.concat(
        pd.DataFrame({"metric": metric, "mean": speeds, **columns})
        for metric in ("canary_cpu", "canary_disk_read")
    )
    messages = [one.message for one in canary_warnings(table)]
    assert len(messages) == alarm
    words = "canary_cpu of hosts with clients from 45 to 100 1/s, 3 of 15 times off its median"
    assert not alarm or words in messages[0]
