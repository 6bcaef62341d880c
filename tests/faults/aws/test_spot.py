"""A real study on hosts that say they are spot instances: one is taken back, and what it costs."""

import json
import os

import pandas as pd
import pytest
from support.paths import SMALL
from support.s3.instance_metadata import ImdsServer
from support.workspace import Workspace

STUDY = """
inputs: {{paths: data}}
engines: [sqlite]
phases: [write, read: {{seconds: 2}}]
prices:
  {{node_hour: 1, client_hour: 1, gb_month: 0, currency: EUR, note: ours, date: 2026-03-31,
   instances: {{i4i.2xlarge: {{spot: 0.25}}}}}}
max_cost: {limit}
"""


@pytest.fixture(scope="module")
def imds():
    with ImdsServer("spot") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def run(imds, tmp_path_factory):
    """A study of which an attempt was interrupted."""
    place = Workspace(tmp_path_factory.mktemp("spot"))
    place.copy_inputs(SMALL[:2])
    place.write_study(STUDY.format(limit=5))
    # As EC2 does: whoever comes to the host until it is gone is told the same.
    imds.ends_in = 12
    return place, place.storewise("run", "s.yaml")


def test_above_its_limit_nothing_is_started(tmp_path):
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL[:2])
    place.write_study(STUDY.format(limit=0.001))
    refused = place.storewise("run", "s.yaml")
    assert refused.returncode == 2, refused.stderr
    for words in ("what is still to be measured (1 trial)", "EUR, more than its max_cost of 0.001"):
        assert words in refused.stderr
    assert not list(place.results.glob("trials/*"))
    assert not list(place.results.glob("inputs/*"))


def test_a_spot_instance_is_taken_back_and_the_report_says_so(run):
    place, done = run
    assert done.returncode == 0, done.stderr
    assert "the study allows 5.00" in done.stderr
    (path,) = place.results.glob("failures/*.jsonl")
    (failure,) = map(json.loads, path.read_text().splitlines())
    reason = failure["reason"]
    words = f"EC2 takes back host {os.uname().nodename} (spot interruption at 20"
    assert reason.startswith(words), "and no second attempt while it is there"
    assert f": {reason}" in done.stdout
    assert "is tried again; its logs: " in done.stderr
    assert "until the host that is taken back is gone" in done.stderr
    page = (place.results / "report.html").read_text()
    assert ">Failed attempts</h3>" in page
    assert reason in page
    assert "i4i.2xlarge, spot, zone eu-central-1b, image ami-0abcdef1234567890" in page
    assert "i4i.2xlarge spot: 0.25 EUR an hour" in page
    assert "node_hour 1, client_hour 1 EUR; ours; prices of 2026-03-31" in page
    costs = pd.read_csv(place.results / "analysis" / "costs.csv").dropna(subset="note")
    assert any(text.startswith("priced as 1 x i4i.2xlarge spot; ours") for text in costs["note"])
    warnings = pd.read_csv(place.results / "analysis" / "warnings.csv")
    assert list(warnings["code"]).count("failed_attempt") == 1
    everything = "".join(
        file.read_text(errors="replace") for file in place.results.rglob("*") if file.is_file()
    )
    assert "token-" not in everything
    assert "123456789012" not in everything, "nor the account"


@pytest.mark.all_cells
def test_analysis_is_never_refused(run):
    place, _ = run
    place.write_study(STUDY.format(limit=0.0001))
    again = place.snakemake("--until", "analyse")
    assert again.returncode == 0, again.stderr
    assert "Analysing" in again.stderr
