"""A real study on hosts that say they are spot instances: one is taken back, and what it costs."""

import os

import pandas as pd
import pytest
from support.paths import SMALL
from support.s3.instance_metadata import ImdsServer
from support.workspace import Workspace

STUDY = """
inputs: {paths: data}
engines: [sqlite]
phases: [write, read: {seconds: 2}]
prices:
  {node_hour: 1, client_hour: 1, gb_month: 0, currency: EUR, note: ours, date: 2026-03-31,
   instances: {i4i.2xlarge: {spot: 0.25}}}
max_cost: 5
"""


def test_a_spot_instance_is_taken_back_and_the_report_says_so(tmp_path, monkeypatch):
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL[:2])
    place.write_study(STUDY)
    with ImdsServer("spot") as imds:
        for name, value in imds.environment.items():
            monkeypatch.setenv(name, value)
        # As EC2 does: whoever comes to the host until it is gone is told the same.
        imds.ends_in = 20
        done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stderr
    assert "the study allows 5.00" in done.stderr
    (reason,) = place.failures()
    words = f"EC2 takes back host {os.uname().nodename} (spot interruption at 20"
    assert reason.startswith(words), "and no second attempt while it is there"
    assert f": {reason}" in done.stdout
    assert "is tried again; its logs: " in done.stderr
    assert "until the host that is taken back is gone" in done.stderr
    page = (place.results / "report.html").read_text()
    assert ">Failed attempts</h3>" in page
    assert reason in page
    assert "i4i.2xlarge, spot, zone eu-central-1b, image ami-0abcdef1234567890" in page
    summary = pd.read_csv(place.results / "analysis" / "summary.csv")
    hours, money = (
        summary.loc[summary["measure"] == measure, "mean"].to_numpy()
        for measure in ("host_hours_per_million", "money_per_million")
    )
    assert money / hours == pytest.approx(0.25)
    everything = "".join(
        file.read_text(errors="replace") for file in place.results.rglob("*") if file.is_file()
    )
    assert "token-" not in everything
    assert "123456789012" not in everything, "nor the account"
