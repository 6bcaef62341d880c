"""Results to S3 and back, over a real socket, with what can go wrong on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from harness import wait_until
from s3_server import Bucket, Cut, Delay, Flip, Reset, Status
from typer.testing import CliRunner

from storewise.cli import app
from storewise.errors import StorewiseError
from storewise.objects import client, digests
from storewise.objects.client import ObjectError
from storewise.objects.manifest import MANIFEST, parse_manifest
from storewise.objects.publish import carry_out
from storewise.objects.pull import fetch, missing, publication
from storewise.objects.upload import check_writable
from storewise.objects.uri import Place, parse
from storewise.publication import Publish, folder_of, tags_of
from storewise.publishing import foreign_trials, plan_of, select, write_config
from storewise.session.live import Process

MIB = 1 << 20
#: 2026-11-22T08:17:21Z
STARTED = 1795335441.5
FOLDER = "p/20261122T081721Z-mine-first"
SECRET = "hunter2"


def quiet(*_: int) -> None:
    return


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results of a study as they lie on disk, with what must not go up."""
    top = tmp_path / "results" / "mine"
    study = {"name": "mine", "engines": {"sqlite": {}}, "inputs": {"paths": ["data"]}}
    study["phases"] = [{"name": "write", "params": {"batch_size": 10}, "steps": []}]
    texts = {
        "study.json": json.dumps(study),
        "report.html": "<p>report</p>",
        "summary.csv": "a,b\n",
        "logs/t/load.0.log": "loaded\n",
        "logs/publish.log": "being written\n",
        "analysis/empty.csv": "",
        "inputs/manifest.parquet": "PAR1",
        "inputs/cache/x": "made again from the rest",
        "trials/t/write.0.parquet": "PAR1" * 100,
        "trials/t/store.0/data.db": "documents",
        "trials/t/.write.0.parquet.host.1.tmp": "half",
        "live/t/credentials/secret.json": SECRET,
        "leases/run": "",
        ".asked/now": "1",
        "run.json": json.dumps(
            {
                "run": "host.1.a",
                "process": {"host": "host", "pid": 1, "started": 1.0},
                "started": STARTED,
                "trials": {"t": "sqlite"},
                "measuring": ["t"],
                "ended": STARTED + 9,
            }
        ),
    }
    for name, text in texts.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def publish(results: Path, s3: Bucket, tags: dict[str, str] | None = None) -> Place:
    write_config(results)
    settings = Publish(to=f"{s3.uri}/p", name="first", tags=tags or {})
    todo = plan_of(results, settings, quiet)
    carry_out(todo, quiet)
    return todo.folder


def pull(folder: Place, target: Path) -> None:
    found = publication(folder)
    wanted, _ = missing(found, target, quiet)
    fetch(folder, wanted, target, quiet)


def content(top: Path, names: Sequence[str]) -> dict[str, tuple[bytes, int]]:
    return {n: ((top / n).read_bytes(), (top / n).stat().st_mtime_ns) for n in names}


def puts(s3: Bucket) -> list[str]:
    """What was written, by name, and nothing of it since the last call."""
    names = [request.target.split("?")[0] for request in s3.faults.seen("PUT")]
    s3.faults.clear()
    return [name.partition("-first/")[2] for name in names]


def test_results_go_up_and_come_back(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3, {"owner": "me + ä@x y"})
    assert folder.key == f"{FOLDER}/"
    keys = [key.removeprefix(folder.key) for key in s3.keys("p")]
    assert set(keys) == {
        *("study.json", "report.html", "summary.csv", "logs/t/load.0.log", "analysis/empty.csv"),
        *("inputs/manifest.parquet", "trials/t/write.0.parquet", "config/mine.yaml"),
        *("config/run.json", MANIFEST),
    }
    sent = s3.faults.seen("PUT")
    assert sent[-1].target.endswith(MANIFEST)
    assert all({"x-amz-checksum-sha256", "x-amz-tagging"} <= {*request.headers} for request in sent)
    for key in s3.keys("p"):
        tags = s3.client.get_object_tagging(Bucket=s3.name, Key=key)["TagSet"]
        found = {tag["Key"]: tag["Value"] for tag in tags}
        assert found.pop("storewise")
        assert found == {
            "study": "mine",
            "name": "first",
            "run": "2026-11-22T08:17:21Z",
            "owner": "me + ä@x y",
        }
        assert SECRET.encode() not in s3.get(key)
    pull(folder, tmp_path / "other")
    names = [file.name for file in select(results)]
    assert content(tmp_path / "other", names) == content(results, names)
    assert sorted(p.name for p in select(tmp_path / "other")) == names
    # What was pulled is of the same run, wherever it is.
    assert publish(tmp_path / "other", s3) == folder


def test_only_what_is_new_goes_up(results: Path, s3: Bucket) -> None:
    folder = publish(results, s3)
    assert len(puts(s3)) == 10
    publish(results, s3)
    assert puts(s3) == []
    (results / "report.html").write_text("<p>another</p>")
    (results / "analysis" / "new.csv").write_text("c\n")
    (results / "summary.csv").unlink()
    publish(results, s3)
    # The manifest is not complete meanwhile.
    first, *others, last = puts(s3)
    assert (first, sorted(others), last) == (
        MANIFEST,
        ["analysis/new.csv", "report.html"],
        MANIFEST,
    )
    assert {"report.html", "analysis/new.csv"} <= {e.path for e in publication(folder).files}
    assert "summary.csv" not in {entry.path for entry in publication(folder).files}
    # Other tags reach what stays; content of the same size does not pass for the same.
    (results / "report.html").write_text("<p>ANOTHER</p>")
    publish(results, s3, {"owner": "me"})
    written = puts(s3)
    assert written.count("report.html") == 1 and "study.json" in written
    tags = s3.client.get_object_tagging(Bucket=s3.name, Key=f"{FOLDER}/study.json")["TagSet"]
    assert {"Key": "owner", "Value": "me"} in tags
    assert s3.get(f"{FOLDER}/report.html") == b"<p>ANOTHER</p>"


def test_an_interrupted_publication_is_seen_and_goes_on(results: Path, s3: Bucket) -> None:
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="trials/t/", times=None)
    with pytest.raises(ObjectError, match=r"write\.0\.parquet: access denied for PutObject"):
        publish(results, s3)
    folder = parse(f"{s3.uri}/{FOLDER}")
    before = set(s3.keys("p"))
    assert not any(key.endswith(MANIFEST) for key in before)
    s3.client.put_object(Bucket=s3.name, Key=f"{FOLDER}/trials/t/other", Body=b"")
    with pytest.raises(ObjectError, match="half a publication"):
        publication(folder)
    s3.faults.clear()
    publish(results, s3)
    sent = [r.target for r in s3.faults.seen("PUT") if "?tagging" not in r.target]
    assert any("write.0.parquet" in target for target in sent)
    assert not any(target.endswith(tuple(before)) for target in sent)
    publication(folder)

    # So is one that is being renewed.
    (results / "summary.csv").write_text("other\n")
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="summary.csv", times=None)
    with pytest.raises(ObjectError):
        publish(results, s3)
    with pytest.raises(ObjectError, match="interrupted while it was renewed"):
        publication(folder)


def test_a_publication_that_is_killed_goes_on(results: Path, s3: Bucket) -> None:
    for i in range(60):
        (results / "trials" / "t" / f"read.{i}.parquet").write_text(f"PAR1{i}")
    s3.faults.add(Delay(0.1), method="PUT", times=None)
    program = Path(sys.executable).parent / "storewise"
    process = subprocess.Popen([program, "publish", results, f"{s3.uri}/p", "--name", "first"])
    try:
        wait_until(lambda: len(s3.faults.seen("PUT")) > 20, 60, "some files to go up")
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: s3.faults._at_once == 0, 10, "the end of its requests")
    there = s3.keys("p")
    assert there and f"{FOLDER}/{MANIFEST}" not in there
    s3.faults.clear()
    publish(results, s3)
    sent = [r.target for r in s3.faults.seen("PUT") if "tagging" not in r.target]
    assert sent and not any(target.endswith(tuple(there)) for target in sent)
    assert len(publication(parse(f"{s3.uri}/{FOLDER}")).files) == 69


def test_parts_of_a_large_file_are_kept(
    results: Path, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "PART", 5 * MIB)
    large = results / "trials" / "t" / "large.parquet"
    large.write_bytes(os.urandom(12 * MIB + 1))
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="partNumber=2", times=None)
    with pytest.raises(ObjectError, match="access denied for UploadPart"):
        publish(results, s3)
    s3.faults.clear()
    folder = publish(results, s3)
    assert len(s3.faults.seen("PUT", r"partNumber=2\b")) == 1
    assert not s3.faults.seen("PUT", r"partNumber=[13]\b")
    assert not s3.client.list_multipart_uploads(Bucket=s3.name).get("Uploads")
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    s3.faults.clear()
    publish(results, s3)
    assert puts(s3) == []

    # The answer to the last request is lost: S3 has done it all the same.
    large.write_bytes(os.urandom(11 * MIB))
    s3.faults.add(Cut(0), method="POST", target="uploadId=")
    publish(results, s3)
    assert s3.faults.seen("HEAD", "large.parquet")
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    s3.faults.clear()

    # A part that changed is sent again, an upload that is of no use any more is ended.
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="partNumber=2", times=None)
    data = bytearray(os.urandom(12 * MIB + 1))
    large.write_bytes(data)
    with pytest.raises(ObjectError):
        publish(results, s3)
    s3.faults.clear()
    data[0] ^= 1
    large.write_bytes(data)
    publish(results, s3)
    assert len(s3.faults.seen("PUT", r"partNumber=1\b")) == 1
    assert s3.get(f"{folder.key}trials/t/large.parquet") == data

    # It comes back in windows; what is there of it is not fetched again.
    target = tmp_path / "other"
    s3.faults.add(Status(403, "AccessDenied"), method="GET", target="large", times=None, skip=1)
    with pytest.raises(ObjectError):
        pull(folder, target)
    assert len(list((target / "trials" / "t").glob(".large.parquet.*.partial"))) == 1
    assert not (target / "trials" / "t" / "large.parquet").exists()
    s3.faults.clear()
    pull(folder, target)
    (request,) = s3.faults.seen("GET", "large.parquet")
    assert request.headers["Range"] == f"bytes={8 * MIB}-{12 * MIB}"
    assert (target / "trials" / "t" / "large.parquet").read_bytes() == data
    assert not list(target.rglob("*.partial"))


def test_what_is_spoilt_on_its_way_is_sent_again(results: Path, s3: Bucket) -> None:
    s3.faults.add(Flip(3, sent=True), method="PUT", target="report.html")
    folder = publish(results, s3)
    assert s3.get(f"{folder.key}report.html") == b"<p>report</p>"
    assert len(s3.faults.seen("PUT", "report.html")) == 2
    (results / "report.html").write_text("<p>other</p>")
    s3.faults.add(Flip(3, sent=True), method="PUT", target="report.html", times=None)
    with pytest.raises(ObjectError, match=r"report\.html: what arrived had another checksum"):
        publish(results, s3)
    assert s3.get(f"{folder.key}report.html") == b"<p>report</p>"


def test_a_file_that_changes_meanwhile_is_named(results: Path, s3: Bucket) -> None:
    write_config(results)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p"), quiet)
    (results / "report.html").write_text("<p>longer than it was</p>")
    with pytest.raises(ObjectError, match=r"report\.html: changed while it was published"):
        carry_out(todo, quiet)
    (results / "report.html").unlink()
    with pytest.raises(ObjectError, match=r"report\.html: No such file"):
        carry_out(todo, quiet)


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
    assert status == 0 and "9 files" in told
    folder = out.strip()
    assert folder == f"{s3.uri}/{FOLDER}/"

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


def test_a_server_that_hesitates_or_is_gone(
    results: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.faults.add(Status(503, "SlowDown"), method="PUT", target="report.html")
    s3.faults.add(Reset(), method="PUT", target="summary.csv")
    s3.faults.add(Delay(0.2), method="PUT", times=3)
    assert publication(publish(results, s3)).complete
    monkeypatch.setattr(client, "TRIES", 2)
    client._client.cache_clear()
    with s3.faults.down(), pytest.raises(ObjectError, match="does not answer after 2 tries"):
        publish(results, s3)


def test_a_place_is_tried_without_a_trace(s3: Bucket) -> None:
    check_writable(parse(f"{s3.uri}/p/"), {"study": "s"})
    assert s3.keys() == []
    assert not s3.client.list_multipart_uploads(Bucket=s3.name).get("Uploads")
    s3.faults.add(Status(403, "AccessDenied"), method="POST", times=None)
    with pytest.raises(ObjectError, match="access denied for CreateMultipartUpload"):
        check_writable(parse(f"{s3.uri}/p/"), {"study": "s"})


def test_a_directory_that_cannot_be_written(results: Path, s3: Bucket, tmp_path: Path) -> None:
    folder = publish(results, s3)
    (tmp_path / "file").write_text("")
    status, _, told = command("pull", folder, tmp_path / "file")
    assert status == 2 and f"{tmp_path / 'file'}" in told and "ot a directory" in told


def test_results_without_anything_to_publish(tmp_path: Path) -> None:
    with pytest.raises(StorewiseError, match="there is no analysis to publish"):
        write_config(tmp_path)
    (tmp_path / "study.json").write_text('{"name": "s"}')
    with pytest.raises(StorewiseError, match="no trial was measured here"):
        write_config(tmp_path)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"to": "bucket/p"}, "names nothing on S3"),
        ({"to": "s3://bucket", "name": "a/b"}, "letters, digits, dots"),
        ({"to": "s3://bucket", "tags": {"study": "x"}}, "not yours to set"),
        ({"to": "s3://bucket", "tags": {"a": "b;c"}}, "';' is not taken by S3"),
        ({"to": "s3://bucket", "tags": {str(i): "" for i in range(7)}}, "7 of them; S3 takes 10"),
    ],
)
def test_settings_that_s3_would_refuse(given: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Publish.model_validate(given)


def test_names_and_tags() -> None:
    settings = Publish(to="s3://bucket/a/b/")
    assert folder_of(settings, "s", 0.9) == parse("s3://bucket/a/b/19700101T000000Z-s/")
    tags = tags_of(settings, "a,b", 0)
    assert tags["study"] == "a_b" and "name" not in tags


def test_parts_fit_any_size() -> None:
    assert digests.part_bytes(1) == 16 * MIB
    terabytes = 5 << 40
    part = digests.part_bytes(terabytes)
    assert part % MIB == 0 and -(-terabytes // part) <= 10_000
