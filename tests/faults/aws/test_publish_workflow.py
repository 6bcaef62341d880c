"""Publishing as a user meets it: the last rule of a run, the target `publish`, the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.paths import ROOT
from support.s3.faults import Status
from support.s3.server import Bucket
from support.workflow import MEASURING, edited_workflow, planned
from support.workspace import Workspace

from storewise.publish.manifest import MANIFEST
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
def measured(s3: Bucket, tmp_path: Path) -> Workspace:
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


def test_publishing_measures_nothing(measured: Workspace, s3: Bucket) -> None:
    for path in [measured.directory / "s.yaml", *(measured.directory / "data").iterdir()]:
        path.touch()
    done = measured.run(measured.command("publish", snakefile=edited_workflow(measured)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert planned(done.stdout + done.stderr) == {"publish": 1}
    keys = [key.partition("-s-first/")[2] for key in s3.keys("studies")]
    assert {MANIFEST, "report.html", "config/s.yaml", "config/written/base.yaml"} <= {*keys}
    assert len([key for key in keys if key.startswith("trials/")]) == 6
    # Without a report it is made first, of what is there.
    (measured.results / "report.html").unlink()
    done = measured.snakemake("-n", "publish")
    jobs = planned(done.stdout + done.stderr)
    assert {"publish", "report"} <= set(jobs) and not MEASURING & set(jobs), jobs
    # Where it is one of several targets it comes after what they make.
    (measured.results / "report.html").write_text("page")
    done = measured.snakemake("-n", "--quiet", "progress", "--", "all", "publish")
    why = (done.stdout + done.stderr).partition("Publishing results/s")[2].partition("Job ")[0]
    assert "updated by another job: results/s/report.html" in why, done.stdout + done.stderr


def test_a_place_that_cannot_be_written_is_told_before_anything_starts(
    measured: Workspace, s3: Bucket
) -> None:
    measured.write_study(STUDY.format(bucket="no-such-bucket-here"))
    shutil.rmtree(measured.results)
    done = measured.snakemake()
    assert done.returncode != 0
    assert "cannot be published when they are there: s3://no-such-bucket-here/" in done.stderr
    assert not (measured.results / "trials").exists()


def test_a_report_that_cannot_be_published_is_there(measured: Workspace, s3: Bucket) -> None:
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


@pytest.mark.all_cells  # in every run a study on Slurm does so, with the profile `aws`
def test_a_study_goes_to_s3_and_is_analysed_elsewhere(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": "AKIA0OWN0KEY", "AWS_SECRET_ACCESS_KEY": "own/secret+key"}
    credentials["AWS_SESSION_TOKEN"] = "own+session/token=="
    for key, value in credentials.items():
        monkeypatch.setenv(key, value)
    place = Workspace(tmp_path / "here")
    place.directory.mkdir()
    place.copy_inputs()
    (place.directory / "base.yaml").write_text(BASE)
    place.write_study(STUDY.format(bucket=s3.name))
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = done.stdout.split("Published: ")[1].splitlines()[0]
    keys = [key.partition("-s-first/")[2] for key in s3.keys("studies")]
    assert {MANIFEST, "report.html", "config/s.yaml", "config/written/s.yaml"} <= {*keys}
    assert "config/written/base.yaml" in keys and "logs/analyse.log" in keys
    assert not [key for key in keys if key.startswith(("live", "leases", ".", "inputs/cache"))]
    result = {path: path.read_bytes() for path in place.directory.rglob("*") if path.is_file()}
    result |= {Path(key): s3.get(key) for key in s3.keys("studies")}
    for secret in ("AWS_SECRET", "Authorization", "X-Amz-Signature", *credentials.values()):
        assert not [path for path, data in result.items() if secret.encode() in data]
    assert place.left_behind() == []

    # Nothing is left to do; a new report is a new publication, for which nothing is measured.
    done = place.snakemake("-n")
    assert planned(done.stdout + done.stderr) == {}, done.stdout + done.stderr
    for path in [place.directory / "s.yaml", *(place.directory / "data").iterdir()]:
        path.touch()
    page = (place.results / "report.html").rename(place.directory / "page")
    done = place.run(place.command("-n", "publish", snakefile=edited_workflow(place)))
    jobs = planned(done.stdout + done.stderr)
    assert jobs["publish"] == 1 and not MEASURING & set(jobs), jobs
    page.rename(place.results / "report.html")
    s3.faults.clear()
    done = place.snakemake("publish")
    assert done.returncode == 0, done.stdout + done.stderr
    assert planned(done.stdout + done.stderr) == {"publish": 1}
    assert not [r for r in s3.faults.seen("PUT") if "/trials/" in r.target]

    # In an empty directory: pulled, analysed, the same figures.
    other = Workspace(tmp_path / "there")
    other.directory.mkdir()
    done = other.storewise("pull", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "results/s"
    shutil.copytree(other.results, tmp_path / "pulled")
    other.study = "results/s/config/s"
    done = other.snakemake("analysis")
    assert done.returncode == 0, done.stdout + done.stderr
    results = other.directory / "results" / "s"
    done = other.snakemake("-n")
    assert set(planned(done.stdout + done.stderr)) == {"publish", "all"}, done.stdout
    for name in ("summary.csv", "analysis/verdict.json"):
        assert (results / name).read_text() == (tmp_path / "pulled" / name).read_text()


def test_a_study_that_does_not_say_where_to(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.write_study(f"inputs: {{paths: data}}\n{BASE}")
    done = place.snakemake("-n", "publish")
    assert done.returncode != 0
    assert "does not say where its results go" in done.stdout + done.stderr
