"""Results to S3, with what can go wrong on the way."""

import logging
import os
import re

import pytest
from support.results.published import (
    FOLDER,
    MIB,
    SECRET,
    command,
    content,
    publish,
    pull,
    puts,
    quiet,
    write_results,
)
from support.s3.faults import Status

from storewise.publish.manifest import MANIFEST
from storewise.publish.pull import publication
from storewise.publish.push import carry_out, plan_of, remember, summary
from storewise.publish.results import report_is_old, select, write_config
from storewise.run.outcome import published_at
from storewise.s3 import checksums as digests
from storewise.s3 import client
from storewise.s3.client import ObjectError
from storewise.s3.uri import parse
from storewise.study.publication import Publish


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def test_results_go_up_and_come_back(results, s3, tmp_path):
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
        result = s3.tags(key)
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


def test_only_what_is_new_goes_up(results, s3):
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
    assert s3.tags(f"{FOLDER}/study.json")["owner"] == "me"
    assert s3.get(f"{FOLDER}/report.html") == b"<p>ANOTHER</p>"


def test_an_interrupted_publication_is_seen_and_goes_on(results, s3):
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="trials/t/", times=None)
    with pytest.raises(ObjectError, match=r"write\.0\.parquet: access denied for PutObject"):
        publish(results, s3)
    folder = parse(f"{s3.uri}/{FOLDER}")
    before = set(s3.keys("p"))
    with pytest.raises(ObjectError, match="half a publication: it is being written, or was inter"):
        publication(folder)
    s3.put(f"{FOLDER}/trials/t/other", b"")
    s3.delete(f"{FOLDER}/{MANIFEST}")
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


def test_no_credentials_anywhere(results, s3, monkeypatch, caplog):
    secrets = {"AWS_ACCESS_KEY_ID": "AKIA0OWN0KEY", "AWS_SECRET_ACCESS_KEY": "own/secret+key"}
    secrets["AWS_SESSION_TOKEN"] = "own+session/token=="
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    client._client.cache_clear()
    caplog.set_level(logging.INFO)
    output = ""
    for expected, fault in ((2, Status(400, "ExpiredToken", "own+session/token==")), (0, None)):
        if fault is not None:
            s3.faults.add(fault, method="PUT", target=r"report\.html")
        status, out, message = command("publish", results, f"{s3.uri}/p", "--name", "first")
        assert status == expected, message
        output += out + message
    client._client.cache_clear()
    assert "credentials are not accepted (ExpiredToken): renew them" in output
    assert s3.faults.seen("PUT")[-1].headers["X-Amz-Security-Token"] in secrets.values()
    kept = [path.read_bytes() for path in results.rglob("*") if path.is_file()]
    kept += [s3.get(key) for key in s3.keys("p")] + [(output + caplog.text).encode()]
    for secret in secrets.values():
        assert not [data for data in kept if secret.encode() in data]


def test_a_large_file_goes_up_in_parts(results, s3, tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "PART", 5 * MIB)
    large = results / "trials" / "t" / "large.parquet"
    data = os.urandom(1 << 16) + bytes(8 * MIB)
    large.write_bytes(data)
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="partNumber=2", times=None)
    with pytest.raises(ObjectError, match="access denied for UploadPart"):
        publish(results, s3)
    assert s3.uploads() == []
    s3.faults.clear()
    told: list[tuple[int, int]] = []
    write_config(results)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
    carry_out(todo, lambda done, total: told.append((done, total)))
    folder = todo.folder
    assert told == sorted(told) and told[-1] == (todo.bytes, todo.bytes)
    assert s3.get(f"{folder.key}trials/t/large.parquet") == data
    # That it is there is seen by the checksum that S3 made of those of its parts.
    for last, parts in ((data[-1], 0), (data[-1] ^ 1, 2)):
        large.write_bytes(data[:-1] + bytes([last]))
        s3.delete(f"{folder.key}{MANIFEST}")
        s3.faults.clear()
        publish(results, s3)
        assert len(s3.faults.seen("PUT", "partNumber=")) == parts
    # It comes back in parts, all or nothing.
    target = tmp_path / "other"
    s3.faults.add(Status(403, "AccessDenied"), method="GET", target="large", times=None, skip=1)
    with pytest.raises(ObjectError, match=r"large\.parquet: access denied"):
        pull(folder, target)
    assert not list((target / "trials" / "t").glob("*large.parquet*"))
    s3.faults.clear()
    pull(folder, target)
    assert len(s3.faults.seen("GET", "large.parquet")) == 2
    assert (target / "trials" / "t" / "large.parquet").read_bytes() == large.read_bytes()
    assert not list(target.rglob("*.partial*"))


def test_parts_of_an_upload_that_was_killed_go_away(results, s3, monkeypatch):
    monkeypatch.setattr(digests, "PART", 5 * MIB)
    large = results / "trials" / "t" / "large.parquet"
    large.write_bytes(bytes(5 * MIB + 1))
    for key in (f"{FOLDER}/trials/t/large.parquet", f"{FOLDER}/trials/t/gone.parquet"):
        begun = s3.client.create_multipart_upload(Bucket=s3.name, Key=key)
        where = {"Bucket": s3.name, "Key": key, "UploadId": begun["UploadId"]}
        s3.client.upload_part(**where, PartNumber=1, Body=b"x")
    folder = publish(results, s3)
    assert s3.uploads() == []
    assert s3.get(f"{folder.key}trials/t/large.parquet") == large.read_bytes()
    # A large file that cannot be read is one message.
    large.write_bytes(bytes(5 * MIB + 1))
    write_config(results)
    todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
    large.unlink()
    with pytest.raises(ObjectError, match=r"large\.parquet: No such file"):
        carry_out(todo, quiet)


def test_what_is_said_and_remembered(results, s3):
    def told():
        write_config(results)
        todo = plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)
        text = summary(todo).removeprefix(f"{todo.folder}: ")
        carry_out(todo, quiet)
        return todo, re.sub(r"\([\d.]+ \w+\)", "(size)", text)

    assert not report_is_old(results) and published_at(results) is None
    done, text = told()
    assert text == "9 files (size), 9 new or changed (size)"
    remember(results, done)
    assert published_at(results) == str(done.folder)
    # One line for each file, and the rest once.
    lines = s3.get(f"{FOLDER}/{MANIFEST}").decode().splitlines()
    assert sum(line.count('"sha256"') for line in lines) == 9
    assert max(line.count('"sha256"') for line in lines) == sum('"files"' in x for x in lines) == 1
    assert told()[1] == "9 files (size), nothing is new"
    (results / "summary.csv").unlink()
    (results / "trials" / "t" / "failed.json").write_text("{}")
    assert told()[1] == (
        "9 files (size), 1 new or changed (size); 1 of its trials failed, the report says why; 1 "
        "further objects there are of no file that is in the results now"
    )
    # Of a report that is made anew nobody has said where it is.
    os.utime(results / "report.html", (2e9, 2e9))
    assert published_at(results) is None
    (results / "report.html").unlink()
    assert report_is_old(results) and published_at(results) is None
