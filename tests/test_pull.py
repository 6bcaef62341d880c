"""Published results back from S3, and the commands that bring them there and back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from published import FOLDER, content, publish, pull, quiet, write_results
from s3_server import Bucket, Cut, Flip, Status
from typer.testing import CliRunner

from storewise.cli import app
from storewise.errors import StorewiseError
from storewise.objects.client import ObjectError
from storewise.objects.manifest import MANIFEST, parse_manifest
from storewise.objects.pull import missing, publication
from storewise.objects.uri import parse
from storewise.publication import Publish
from storewise.publishing import foreign_trials, plan_of, select
from storewise.session.live import Process


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path)


def test_a_pull_that_breaks_goes_on(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3)
    target = tmp_path / "other"
    s3.faults.add(Cut(3), method="GET", target="report.html")
    s3.faults.add(Status(403, "AccessDenied"), method="GET", target="summary.csv", times=None)
    with pytest.raises(ObjectError, match=r"summary\.csv: access denied"):
        pull(folder, target)
    assert not (target / "summary.csv").exists()
    there = {p.name for p in target.rglob("*") if p.is_file()}
    s3.faults.clear()
    pull(folder, target)
    fetched = {request.target.rpartition("/")[2] for request in s3.faults.seen("GET")}
    assert not fetched & {name for name in there if not name.endswith(".partial")}
    names = [file.name for file in select(results)]
    assert content(target, names) == content(results, names)


def test_damage_is_found(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3)
    target = tmp_path / "other"
    for damaged in (b"<p>REPORT</p>", b"short"):
        s3.put(f"{folder.key}report.html", damaged)
        with pytest.raises(ObjectError, match=r"report\.html: not what MANIFEST\.json says"):
            pull(folder, target)
        assert not (target / "report.html").exists()
        assert not list(target.rglob("*.partial"))
    # Spoilt on its way once: fetched again.
    s3.put(f"{folder.key}report.html", b"<p>report</p>")
    s3.faults.add(Flip(1), method="GET", target="report.html")
    pull(folder, target)
    assert (target / "report.html").read_bytes() == b"<p>report</p>"


def test_files_that_differ_are_told(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3)
    target = tmp_path / "other"
    pull(folder, target)
    (target / "report.html").write_text("mine")
    (target / "trials" / "mine").mkdir()
    (target / "trials" / "mine" / "write.0.parquet").write_text("PAR1")
    found = publication(folder)
    wanted, differing = missing(found, target, quiet)
    assert [entry.path for entry in wanted] == ["report.html"]
    assert differing == [target / "report.html"]
    assert foreign_trials(target, [e.path for e in found.files]) == [target / "trials" / "mine"]


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit status, output and errors (or the one error's text) of the command line."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, StorewiseError):
        return 2, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


def test_commands(results: Path, s3: Bucket, tmp_path: Path) -> None:
    there = tmp_path / "there"
    status, out, told = command("publish", results, f"{s3.uri}/p", "--name", "first", "--dry-run")
    assert status == 0 and "report.html\t13" in out.splitlines()
    assert "9 of 9 files would go up" in told and s3.keys() == []
    status, out, told = command("publish", results, f"{s3.uri}/p", "--name", "first", "--tag", "a")
    assert status == 2 and "'a': expected KEY=VALUE" in told
    status, out, told = command("publish", results, f"{s3.uri}/p", "--name", "first")
    assert status == 0 and "9 files" in told and "older than a trial" not in told
    folder = out.strip()
    assert folder == f"{s3.uri}/{FOLDER}/"

    verified = results / "trials" / "t" / "verify.parquet"
    verified.write_text("PAR1")
    os.utime(verified, (2e9, 2e9))
    (results / "config" / "references").mkdir()
    (results / "config" / "references" / "old.yaml").write_text("of an earlier version")
    status, out, told = command("publish", results, f"{s3.uri}/p", "--name", "first")
    assert status == 0 and "older than a trial" in told and "1 new or changed" in told
    assert command("pull", folder, there)[0] == 0
    page = there / "results" / "mine" / "report.html"
    page.write_text("mine")
    status, _, told = command("pull", folder, there)
    assert status == 2 and f"differ from those of {folder}: {page}" in told
    assert page.read_text() == "mine"
    status, _, told = command("pull", folder, there, "--force")
    assert status == 0 and page.read_bytes() == s3.get(f"{FOLDER}/report.html")
    other = there / "results" / "mine" / "trials" / "other"
    other.mkdir()
    (other / "write.0.parquet").write_text("PAR1")
    status, _, told = command("pull", folder, there)
    assert status == 2 and f"trials that are not of {folder}: {other}" in told


def test_results_that_are_being_measured_stay(results: Path, s3: Bucket, tmp_path: Path) -> None:
    record = json.loads((results / "run.json").read_text())
    record |= {"process": asdict(Process.current()), "ended": None}
    (results / "run.json").write_text(json.dumps(record))
    status, _, told = command("publish", results, f"{s3.uri}/p")
    assert status == 2 and "run host.1.a is measuring it" in told
    assert s3.keys() == []


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"files": [{"path": "../x"}]}, "leads out of the publication"),
        ({"files": [{"path": "/etc/x"}]}, "leads out of the publication"),
        ({"study": ".."}, "study: .*no name of a study"),
        ({"format": 2}, "of format 2, this version of Storewise reads 1"),
        ({"files": None}, "not a manifest of a publication"),
    ],
)
def test_a_manifest_cannot_lead_elsewhere(change: dict[str, object], expected: str) -> None:
    entry = {"bytes": 0, "sha256": "0" * 64, "modified_ns": 0, "etag": ""}
    data: dict[str, object] = {
        **{"format": 1, "complete": True, "study": "s", "name": "", "run": "", "storewise": ""},
        **{"published": "", "tags": {}, "files": []},
        **change,
    }
    if isinstance(data["files"], list):
        data["files"] = [entry | one for one in data["files"]]
    with pytest.raises(ObjectError, match=expected):
        parse_manifest(json.dumps(data).encode(), "s3://b/MANIFEST.json")


def test_places_that_are_no_publication(s3: Bucket, results: Path) -> None:
    with pytest.raises(ObjectError, match="there is no publication, and nothing else"):
        publication(parse(f"{s3.uri}/p"))
    folder = publish(results, s3)
    with pytest.raises(ObjectError, match=f"the folders in it are {folder}"):
        publication(parse(f"{s3.uri}/p"))
    for action in (publication, lambda place: plan_of(results, Publish(to=str(place)), quiet)):
        with pytest.raises(ObjectError, match="there is no such bucket"):
            action(parse("s3://no-such-bucket-here/p"))
    s3.put(f"{folder.key}{MANIFEST}", b"{")
    with pytest.raises(ObjectError, match="not a manifest of a publication"):
        publication(folder)


def test_a_directory_that_cannot_be_written(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3)
    (tmp_path / "file").write_text("")
    status, _, told = command("pull", folder, tmp_path / "file")
    assert status == 2 and f"{tmp_path / 'file'}" in told and "ot a directory" in told
