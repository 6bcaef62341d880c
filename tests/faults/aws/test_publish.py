"""Results to S3, over a real socket, with what can go wrong on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.results.published import (
    FOLDER,
    MIB,
    SECRET,
    content,
    publish,
    pull,
    puts,
    quiet,
    write_results,
)
from support.s3.server import Bucket, Delay, Flip, Lost, Reset, Status
from support.waiting import wait_until

from storewise.publish.manifest import MANIFEST
from storewise.publish.pull import publication
from storewise.publish.push import carry_out, plan_of
from storewise.publish.results import select, write_config
from storewise.s3 import checksums as digests
from storewise.s3 import client
from storewise.s3.client import ObjectError
from storewise.s3.upload import check_writable
from storewise.s3.uri import parse
from storewise.study.publication import Publish


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path)


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
        result = {tag["Key"]: tag["Value"] for tag in tags}
        assert result.pop("storewise")
        assert result == {
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
    assert len(puts(s3)) == 11  # each file, and the manifest before and after them
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
    with pytest.raises(ObjectError, match="half a publication: it is being written, or was inter"):
        publication(folder)
    s3.client.put_object(Bucket=s3.name, Key=f"{FOLDER}/trials/t/other", Body=b"")
    s3.client.delete_object(Bucket=s3.name, Key=f"{FOLDER}/{MANIFEST}")
    with pytest.raises(ObjectError, match=r"a publication without its MANIFEST\.json"):
        publication(folder)
    s3.faults.clear()
    publish(results, s3)
    sent = [r.target for r in s3.faults.seen("PUT") if "?tagging" not in r.target]
    assert any("write.0.parquet" in target for target in sent)
    kept = {key for key in before if not key.endswith(MANIFEST)}
    assert kept and not any(target.endswith(tuple(kept)) for target in sent)
    publication(folder)

    # So is one that is being renewed.
    (results / "summary.csv").write_text("other\n")
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="summary.csv", times=None)
    with pytest.raises(ObjectError):
        publish(results, s3)
    with pytest.raises(ObjectError, match="half a publication"):
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
    wait_until(lambda: s3.faults._at_once == 0, 30, "the end of its requests")
    with pytest.raises(ObjectError, match="half a publication"):
        publication(parse(f"{s3.uri}/{FOLDER}"))
    there = [key for key in s3.keys("p") if not key.endswith(MANIFEST)]
    s3.faults.clear()
    publish(results, s3)
    sent = [r.target for r in s3.faults.seen("PUT") if "tagging" not in r.target]
    assert sent and there and not any(target.endswith(tuple(there)) for target in sent)
    assert len(publication(parse(f"{s3.uri}/{FOLDER}")).files) == 69


def test_no_credentials_anywhere(results: Path, s3: Bucket) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": "AKIA0OWN0KEY", "AWS_SECRET_ACCESS_KEY": "own/secret+key"}
    credentials["AWS_SESSION_TOKEN"] = "own+session/token=="
    program = Path(sys.executable).parent / "storewise"
    output = ""
    for fault in (Status(400, "ExpiredToken", "own+session/token=="), None):
        if fault is not None:
            s3.faults.add(fault, method="PUT", target=r"report\.html")
        done = subprocess.run(
            [program, "publish", results, f"{s3.uri}/p", "--name", "first"],
            env={**os.environ, **credentials},
            capture_output=True,
            text=True,
        )
        assert done.returncode == (0 if fault is None else 2), done.stderr
        output += done.stdout + done.stderr
    assert "credentials are not accepted (ExpiredToken): renew them" in output
    assert (
        s3.faults.seen("PUT")[-1].headers["X-Amz-Security-Token"]
        == credentials["AWS_SESSION_TOKEN"]
    )
    files = [path.read_bytes() for path in results.rglob("*") if path.is_file()]
    for secret in credentials.values():
        assert not [data for data in files if secret.encode() in data] and secret not in output
        assert not [key for key in s3.keys("p") if secret.encode() in s3.get(key)]


def test_a_large_file_goes_up_in_parts(
    results: Path, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "PART", 5 * MIB)
    large = results / "trials" / "t" / "large.parquet"
    large.write_bytes(os.urandom(12 * MIB + 1))
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="partNumber=2", times=None)
    with pytest.raises(ObjectError, match="access denied for UploadPart"):
        publish(results, s3)
    assert not s3.client.list_multipart_uploads(Bucket=s3.name).get("Uploads")
    s3.faults.clear()
    message: list[tuple[int, int]] = []
    write_config(results)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
    carry_out(todo, lambda done, total: message.append((done, total)))
    folder = todo.folder
    assert message == sorted(message) and message[-1] == (todo.bytes, todo.bytes)
    assert len(s3.faults.seen("PUT", "partNumber=")) == 3
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    # That it is there is seen by the checksum that S3 made of those of its parts.
    s3.client.delete_object(Bucket=s3.name, Key=f"{folder.key}{MANIFEST}")
    s3.faults.clear()
    publish(results, s3)
    assert not s3.faults.seen("PUT", "partNumber=")
    large.write_bytes(large.read_bytes()[:-1] + b"?")
    s3.client.delete_object(Bucket=s3.name, Key=f"{folder.key}{MANIFEST}")
    s3.faults.clear()
    publish(results, s3)
    assert len(s3.faults.seen("PUT", "partNumber=")) == 3

    # The answer to the last request is lost: S3 has done it all the same.
    large.write_bytes(os.urandom(11 * MIB))
    s3.faults.clear()
    s3.faults.add(Lost(), method="POST", target="uploadId=")
    publish(results, s3)
    assert s3.faults.seen("HEAD", "large.parquet")
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    s3.faults.clear()

    # A file that changes on its way is not what was read.
    data = bytearray(os.urandom(12 * MIB + 1))
    large.write_bytes(data)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
    data[0] ^= 1
    large.write_bytes(data)
    with pytest.raises(ObjectError, match=r"large\.parquet: changed while it was published"):
        carry_out(todo, quiet)
    publish(results, s3)
    assert s3.get(f"{folder.key}trials/t/large.parquet") == data
    s3.faults.clear()

    # It comes back in parts, all or nothing.
    target = tmp_path / "other"
    s3.faults.add(Status(403, "AccessDenied"), method="GET", target="large", times=None, skip=1)
    with pytest.raises(ObjectError, match=r"large\.parquet: access denied"):
        pull(folder, target)
    assert not list((target / "trials" / "t").glob("*large.parquet*"))
    s3.faults.clear()
    pull(folder, target)
    assert len(s3.faults.seen("GET", "large.parquet")) == 2
    assert (target / "trials" / "t" / "large.parquet").read_bytes() == data
    assert not list(target.rglob("*.partial*"))


def test_parts_of_an_upload_that_was_killed_go_away(
    results: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "PART", 5 * MIB)
    large = results / "trials" / "t" / "large.parquet"
    large.write_bytes(os.urandom(6 * MIB))
    for key in (f"{FOLDER}/trials/t/large.parquet", f"{FOLDER}/trials/t/gone.parquet"):
        begun = s3.client.create_multipart_upload(Bucket=s3.name, Key=key)
        where = {"Bucket": s3.name, "Key": key, "UploadId": begun["UploadId"]}
        s3.client.upload_part(**where, PartNumber=1, Body=b"x")
    folder = publish(results, s3)
    assert not s3.client.list_multipart_uploads(Bucket=s3.name).get("Uploads")
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    # A large file that cannot be read is one message.
    large.write_bytes(os.urandom(6 * MIB))
    write_config(results)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
    large.unlink()
    with pytest.raises(ObjectError, match=r"large\.parquet: No such file"):
        carry_out(todo, quiet)


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
    todo = plan_of(results, Publish(to=f"{s3.uri}/p"), quiet)
    (results / "report.html").unlink()
    with pytest.raises(ObjectError, match=r"report\.html: No such file"):
        carry_out(todo, quiet)


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
    # An endpoint may hold a password.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://me:hunter2@127.0.0.1:1")
    client._client.cache_clear()
    with pytest.raises(ObjectError, match=r"endpoint URL: \"http://127\.0\.0\.1:1/"):
        publish(results, s3)


def test_a_place_is_tried_without_a_trace(s3: Bucket) -> None:
    check_writable(parse(f"{s3.uri}/p/"), {"study": "s"})
    assert s3.keys() == []
    assert not s3.client.list_multipart_uploads(Bucket=s3.name).get("Uploads")
    s3.faults.add(Status(403, "AccessDenied"), method="POST", times=None)
    with pytest.raises(ObjectError, match="access denied for CreateMultipartUpload"):
        check_writable(parse(f"{s3.uri}/p/"), {"study": "s"})
    s3.faults.clear()
    for listing, name in (("list-type=2", "ListObjectsV2"), (r"\?uploads", "ListMultipartUploads")):
        s3.faults.add(Status(403, "AccessDenied"), method="GET", target=listing)
        with pytest.raises(ObjectError, match=f"access denied for {name}"):
            check_writable(parse(f"{s3.uri}/p/"), {"study": "s"})
