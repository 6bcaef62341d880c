"""Publishing as a user meets it: the last rule of a run, the target `publish`, the commands."""

import json
import shutil

import pytest
from support.paths import ROOT
from support.s3.faults import Status
from support.workflow import edited_workflow, planned
from support.workspace import Workspace

from storewise.publish.manifest import MANIFEST
from storewise.publish.results import OLD_REPORT
from storewise.run.runner import NOT_PUBLISHED
from storewise.study.load import load_study

STUDY = """\
extends: base.yaml
inputs: {{paths: data}}
publish: {{to: "s3://{bucket}/studies", name: first, tags: {{owner: me}}}}
"""
BASE = """\
engines: [null, sqlite]
phases:
  - write: {batch_size: 500}
  - read: {operations: 300}
verify: 50
"""


@pytest.fixture
def measured(s3, tmp_path):
    """A study with results that look measured and analysed."""
    place = Workspace(tmp_path / "here")
    place.directory.mkdir()
    place.copy_inputs()
    (place.directory / "base.yaml").write_text(BASE)
    place.write_study(STUDY.format(bucket=s3.name))
    study = load_study(place.directory / "s.yaml", root=ROOT)
    for name in ("report.html", "summary.csv", "analysis/verdict.json", "figures/a.svg"):
        (place.results / name).parent.mkdir(parents=True, exist_ok=True)
        (place.results / name).write_text(name)
    for trial in study.trials():
        for name in ("write.0.parquet", "read.0.parquet", "verify.parquet"):
            path = place.results / "trials" / trial.id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("PAR1")
    text = json.dumps(study.model_dump(mode="json"))
    (place.results / "study.json").write_text(text)
    return place


def test_publishing_measures_nothing(measured, s3):
    for path in [measured.directory / "s.yaml", *(measured.directory / "data").iterdir()]:
        path.touch()
    edited = edited_workflow(measured)
    done = measured.run(measured.command("publish", snakefile=edited))
    assert done.returncode == 0, done.stdout + done.stderr
    assert planned(done.stdout + done.stderr) == {"publish": 1}
    keys = [key.partition("-s-first/")[2] for key in s3.keys("studies")]
    assert {MANIFEST, "report.html", "config/s.yaml", "config/written/base.yaml"} <= {*keys}
    assert len([key for key in keys if key.startswith("trials/")]) == 6
    # Nor does it make a report that is missing; what there is is published.
    (measured.results / "report.html").unlink()
    done = measured.snakemake("publish")
    assert planned(done.stdout + done.stderr) == {"publish": 1}
    assert OLD_REPORT in (measured.results / "logs" / "publish.log").read_text()
    # Where it is one of several targets it comes after what they make.
    (measured.results / "report.html").write_text("page")
    done = measured.snakemake("-n", "--quiet", "progress", "--", "all", "publish")
    why = "Publishing results/s\nReason: Input files updated by another job: results/s/report.html"
    assert why in done.stdout + done.stderr


def test_a_place_that_cannot_be_written_is_told_before_anything_starts(measured, s3):
    measured.write_study(STUDY.format(bucket="no-such-bucket-here"))
    shutil.rmtree(measured.results)
    done = measured.snakemake()
    assert done.returncode != 0
    assert "could not be published at the end of the run: s3://no-such-bucket-here/" in done.stderr
    assert not (measured.results / "trials").exists()


def test_a_report_that_cannot_be_published_is_there(measured, s3):
    """The target `publish` keeps the run from measuring what only looks measured."""
    (measured.results / "analysis" / "verdict.json").write_text('{"finding": "Take sqlite."}')
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="report.html", times=None)
    for _ in range(2):
        done = measured.storewise("run", "s.yaml", "publish")
        assert done.returncode == NOT_PUBLISHED, done.stdout + done.stderr
        assert done.stdout.splitlines()[:2] == ["Take sqlite.", "Page: results/s/report.html"]
        output = (
            "not published, results/s/logs/publish.log says why; when that is mended: storewise"
        )
        assert f"{output} publish s.yaml" in done.stderr
        log = (measured.results / "logs" / "publish.log").read_text()
        assert "report.html: access denied for PutObject" in log
    s3.faults.clear()
    done = measured.storewise("publish", "s.yaml")
    assert done.returncode == 0, done.stderr


def test_a_study_that_does_not_say_where_to(tmp_path):
    place = Workspace(tmp_path)
    place.write_study(f"inputs: {{paths: data}}\n{BASE}")
    done = place.snakemake("publish")
    assert done.returncode != 0 and planned(done.stdout + done.stderr) == {"publish": 1}
    assert "does not say where its results go" in done.stdout + done.stderr
