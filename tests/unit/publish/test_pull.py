"""Published results back from S3, and the commands that bring them there and back."""

import json
import os
import shutil
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from support.results.published import (
    FOLDER,
    STARTED,
    command,
    content,
    publish,
    pull,
    quiet,
    write_results,
)
from support.s3.faults import Cut, Flip, Status

from storewise.errors import StorewiseError
from storewise.publish.manifest import MANIFEST
from storewise.publish.pull import fetch, missing, publication
from storewise.publish.push import plan_of
from storewise.publish.results import foreign_trials, select
from storewise.s3.client import ObjectError
from storewise.s3.uri import parse
from storewise.session.coordination.lease import Lease
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.run_record import read_record
from storewise.study.publication import Publish


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def test_a_pull_that_breaks_goes_on(results, s3, tmp_path):
    folder = publish(results, s3)
    target = tmp_path / "other"
    s3.faults.add(Cut(3), method="GET", target="report.html")
    s3.faults.add(Status(403, "AccessDenied"), method="GET", target="summary.csv", times=None)
    s3.faults.add(Status(403, "AccessDenied"), method="HEAD", target="summary.csv", times=None)
    with pytest.raises(ObjectError, match=r"summary\.csv: access denied"):
        pull(folder, target)
    assert not (target / "summary.csv").exists()
    there = {p.name for p in target.rglob("*") if p.is_file()}
    s3.faults.clear()
    pull(folder, target)
    fetched = {request.target.rpartition("/")[2] for request in s3.faults.seen("GET")}
    assert not fetched & {name for name in there if ".partial" not in name}
    names = [file.name for file in select(results)]
    assert content(target, names) == content(results, names)


def test_damage_is_found(results, s3, tmp_path):
    folder = publish(results, s3)
    target = tmp_path / "other"
    for damaged in (b"<p>REPORT</p>", b"short"):
        s3.put(f"{folder.key}report.html", damaged)
        with pytest.raises(ObjectError, match=r"report\.html: not what MANIFEST\.json says"):
            pull(folder, target)
        assert not (target / "report.html").exists()
        assert not list(target.rglob("*.partial*"))
    s3.delete(f"{folder.key}report.html")
    with pytest.raises(ObjectError, match=r"report\.html: not what MANIFEST\.json says .* deleted"):
        pull(folder, target)
    assert not list(target.rglob("*report.html*"))
    # Spoilt on its way once: fetched again.
    s3.put(f"{folder.key}report.html", b"<p>report</p>")
    s3.faults.add(Flip(1), method="GET", target="report.html")
    pull(folder, target)
    assert (target / "report.html").read_bytes() == b"<p>report</p>"


def test_files_that_differ_are_told(results, s3, tmp_path):
    folder = publish(results, s3)
    target = tmp_path / "other"
    pull(folder, target)
    (target / "report.html").write_text("mine")
    (target / "trials" / "mine").mkdir()
    (target / "trials" / "mine" / "write.0.parquet").write_text("PAR1")
    result = publication(folder)
    wanted, differing = missing(result, target, quiet)
    assert [entry.path for entry in wanted] == ["report.html"]
    assert differing == [target / "report.html"]
    assert foreign_trials(target, [e.path for e in result.files]) == [target / "trials" / "mine"]


def test_commands(results, s3, tmp_path):
    there = tmp_path / "there"
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    status, out, message = command(
        "publish", results, f"{s3.uri}/p", "--name", "first", "--dry-run"
    )
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before
    assert status == 0 and "report.html\t13" in out.splitlines()
    assert "9 of 9 files would go up" in message and s3.keys() == []
    status, out, message = command(
        "publish", results, f"{s3.uri}/p", "--name", "first", "--tag", "a"
    )
    assert status == 2 and "'a': expected KEY=VALUE" in message
    status, out, message = command("publish", results, f"{s3.uri}/p", "--name", "first")
    assert status == 0 and "9 files" in message and "older than a trial" not in message
    folder = out.strip()
    assert folder == f"{s3.uri}/{FOLDER}/"

    verified = results / "trials" / "t" / "verify.parquet"
    verified.write_text("PAR1")
    os.utime(verified, (2e9, 2e9))
    (results / "config" / "references").mkdir()
    (results / "config" / "references" / "old.yaml").write_text("of an earlier version")
    status, out, message = command("publish", results, f"{s3.uri}/p", "--name", "first")
    assert status == 0 and "older than a trial" in message and "1 new or changed" in message
    assert command("pull", folder, there)[0] == 0
    page = there / "results" / "mine" / "report.html"
    page.write_text("mine")
    status, _, message = command("pull", folder, there)
    assert status == 2 and f"differ from those of {folder}: {page}" in message
    assert page.read_text() == "mine"
    status, _, message = command("pull", folder, there, "--force")
    assert status == 0 and page.read_bytes() == s3.get(f"{FOLDER}/report.html")
    other = there / "results" / "mine" / "trials" / "other"
    other.mkdir()
    (other / "write.0.parquet").write_text("PAR1")
    status, _, message = command("pull", folder, there)
    assert status == 2 and f"trials that are not of {folder}: {other}" in message


def test_who_does_not_say_what_or_where_to(results, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert "those with results below results are none" in command("publish")[2]
    monkeypatch.chdir(tmp_path)
    assert "where to? name s3://BUCKET/PREFIX" in command("publish")[2]


def test_results_of_a_run_that_are_replaced_are_published_with_their_new_run(results, s3, tmp_path):
    folder = command("publish", results, f"{s3.uri}/p", "--name", "first")[1].strip()
    there = tmp_path / "there"
    mine = there / "results" / "mine"
    shutil.copytree(results, mine)
    record = read_record(results)
    assert record is not None
    replace(record, run="host.2.b", started=STARTED + 60).write(mine)
    (mine / "report.html").write_text("mine")
    assert command("pull", folder, there, "--force")[0] == 0
    assert (mine / "run.json").exists()  # its trials were the same
    (mine / "trials" / "t" / "write.0.parquet").write_text("PAR1")
    assert command("pull", folder, there, "--force")[0] == 0
    _, out, message = command("publish", mine, f"{s3.uri}/p", "--name", "first")
    assert out.strip() == folder and "nothing is new" in message


def test_what_is_remembered(results, s3):
    """Published by hand elsewhere, a study is not yet where it says."""
    study = json.loads((results / "study.json").read_text())
    (results / "study.json").write_text(json.dumps(study | {"publish": {"to": f"{s3.uri}/own"}}))
    assert command("publish", results, f"{s3.uri}/else")[0] == 0
    assert not (results / "published.json").exists()
    failed = results / "trials" / "t" / "failed.json"
    failed.write_text("{}")
    status, out, message = command("publish", results)
    assert status == 0 and "1 of its trials failed" in message
    assert json.loads((results / "published.json").read_text())["place"] == out.strip()


def test_names_of_any_kind(results, s3, tmp_path):
    names = ["ä ö.csv", "a+b %20&c.csv", "[x]*.csv", "'\"<&>.csv"]
    for name in names:
        (results / "analysis" / name).write_text(name)
    folder = publish(results, s3)
    pull(folder, tmp_path / "other")
    for name in names:
        assert (tmp_path / "other" / "analysis" / name).read_text() == name
    publish(results, s3)
    for name in ("\n.csv", os.fsdecode(b"\xff.csv")):
        (results / "analysis" / name).write_text("")
        with pytest.raises(
            StorewiseError, match=r"analysis/\\(n|udcff)\.csv': no name for an object"
        ):
            select(results)
        (results / "analysis" / name).unlink()


def test_what_interruptions_leave_goes_away(results, s3, tmp_path):
    folder = publish(results, s3)
    target = tmp_path / "other"
    (target / "trials" / "t").mkdir(parents=True)
    of_another_content = target / "trials" / "t" / f".write.0.parquet.{'0' * 16}.partial"
    of_another_content.write_text("PAR")
    cut = target / "trials" / "t" / f".write.0.parquet.{'0' * 16}.partial.1aF2e3D4"
    cut.write_text("PAR")
    users = target / ".mine.partial"
    users.write_text("")
    pull(folder, target)
    assert not of_another_content.exists() and not cut.exists() and users.exists()


def test_space_for_what_is_still_to_come(results, s3, tmp_path, monkeypatch):
    page = results / "report.html"
    page.write_bytes(bytes(1 << 20))
    folder = publish(results, s3)
    target = tmp_path / "other"
    (entry,) = [entry for entry in publication(folder).files if entry.path == "report.html"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 19))
    with pytest.raises(StorewiseError, match="1048576 bytes are to be fetched, but 524288 are fr"):
        fetch(folder, [entry], target, quiet)
    assert not target.exists()


def test_results_that_are_being_measured_stay(results, s3, tmp_path):
    record = json.loads((results / "run.json").read_text())
    record |= {"process": asdict(Process.current()), "ended": None}
    (results / "run.json").write_text(json.dumps(record))
    status, _, message = command("publish", results, f"{s3.uri}/p")
    assert status == 2 and "run host.1.a is measuring it" in message
    elsewhere = Process("elsewhere", 1, 1.0)
    (results / "run.json").write_text(json.dumps(record | {"process": asdict(elsewhere)}))
    Lease("host.1.a", Process.current(), 90.0).write(results / "leases")
    status, _, message = command("publish", results, f"{s3.uri}/p")
    assert status == 2 and "run host.1.a is measuring it" in message
    assert s3.keys() == []


def test_places_that_are_no_publication(s3, results):
    with pytest.raises(ObjectError, match="there is no publication, and nothing else"):
        publication(parse(f"{s3.uri}/p"))
    folder = publish(results, s3)
    with pytest.raises(ObjectError, match=f"the folders in it are {folder}"):
        publication(parse(f"{s3.uri}/p"))
    for action in (publication, lambda place: plan_of(results, Publish(to=str(place)), quiet)):
        with pytest.raises(ObjectError, match="there is no such bucket"):
            action(parse("s3://no-such-bucket-here/p"))
    s3.put(f"{folder.key}{MANIFEST}", b"{")
    with pytest.raises(
        ObjectError, match=r"not a manifest of a publication .* publish the results a"
    ):
        publication(folder)
    (results / MANIFEST).write_text("a copy")
    assert publication(publish(results, s3)).complete
    assert publication(folder).files[0].path != MANIFEST
    s3.faults.add(Cut(9), method="GET", target=MANIFEST)
    assert publication(folder).complete
