"""Files and texts that go up: conditions, checksums, tags, and answers that are lost."""

import base64
import hashlib
import os

import pytest
from support.s3.faults import Flip, Lost, Status

from storewise.dataset.storage import storage_of
from storewise.s3 import checksums
from storewise.s3.checksums import digest_file
from storewise.s3.client import Changed, NotThere, ObjectError, Spoilt
from storewise.s3.upload import (
    Sending,
    abort_upload,
    check_writable,
    put_small,
    stored_checksum,
    tag,
    upload,
)
from storewise.s3.uri import Place

MIB = 1 << 20
TAGS = {"study": "a b+c", "owner": "x=/@:"}


@pytest.fixture
def place(s3):
    return Place(s3.name, "p/report.html")


def sha256(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def file_of(tmp_path, place, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    return Sending(path, place, digest_file(path))


def test_a_small_file_goes_up_in_one_request(s3, place, tmp_path):
    told = []
    etag = upload(file_of(tmp_path, place, b"<p>ok</p>"), TAGS, told.append)
    (request,) = s3.faults.requests
    assert request.headers["x-amz-checksum-sha256"] == sha256(b"<p>ok</p>")
    head = s3.client.head_object(Bucket=s3.name, Key=place.key)
    assert (head["ETag"], head["ContentType"]) == (etag, "text/html; charset=utf-8")
    assert s3.tags(place.key) == TAGS and told == []
    assert stored_checksum(place) == (sha256(b"<p>ok</p>"), etag)
    # Without tags no right to tag is needed.
    upload(file_of(tmp_path, place, b""), {}, told.append)
    assert "x-amz-tagging" not in s3.faults.seen("PUT")[-1].headers and s3.tags(place.key) == {}
    changed = file_of(tmp_path, place, b"before")
    changed.path.write_bytes(b"after!")
    with pytest.raises(ObjectError, match="file: changed while it was published; publish again"):
        upload(changed, {}, told.append)
    assert s3.get(place.key) == b""


def test_a_browser_is_told_what_an_object_is(s3):
    text, octets = "text/plain; charset=utf-8", "application/octet-stream"
    for name, kind in (
        ("a.json", "application/json"),
        ("a.b.csv", "text/csv; charset=utf-8"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        *((f"a.{suffix}", text) for suffix in ("log", "yaml", "yml", "txt", "tsv")),
        *((name, octets) for name in ("a.parquet", "html", "b.html/x", "a.JSON")),
    ):
        put_small(Place(s3.name, name), b"x", {}, "")
        assert s3.client.head_object(Bucket=s3.name, Key=name)["ContentType"] == kind, name


def test_a_large_file_goes_up_in_parts(s3, place, tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "PART", 5 * MIB)
    data = bytes(1 << 16) + os.urandom(1 << 16) + bytes(5 * MIB)
    file = file_of(tmp_path, place, data)
    told = []
    etag = upload(file, TAGS, told.append)
    assert sum(told) == len(data) and s3.get(place.key) == data
    assert len(s3.faults.seen("PUT", "partNumber=")) == 2
    assert stored_checksum(place)[1] == etag and file.digest.fits(stored_checksum(place)[0])
    head = s3.client.head_object(Bucket=s3.name, Key=place.key)
    assert head["ContentType"] == "text/html; charset=utf-8" and s3.tags(place.key) == TAGS
    # The answer to the last request is lost: S3 has done it all the same.
    s3.delete(place.key)
    s3.faults.add(Lost(), method="POST", target="uploadId=")
    upload(file, {}, told.append)
    assert s3.get(place.key) == data
    # Another process wrote, or the file is not what was read.
    s3.faults.add(Status(404, "NoSuchUpload"), method="POST", target="uploadId=")
    s3.put(place.key, data[::-1])
    assert upload(file, {}, told.append)  # of an object without a checksum nothing is known
    s3.client.put_object(Bucket=s3.name, Key=place.key, Body=b"x", ChecksumAlgorithm="SHA256")
    s3.faults.add(Status(404, "NoSuchUpload"), method="POST", target="uploadId=")
    with pytest.raises(ObjectError, match=r"report\.html was written or deleted by another proc"):
        upload(file, {}, told.append)
    file.path.write_bytes(b"y" + data[1:])
    with pytest.raises(ObjectError, match="file: changed while it was published"):
        upload(file, {}, told.append)
    s3.faults.add(Status(403, "AccessDenied"), method="PUT", target="partNumber=2", times=None)
    with pytest.raises(ObjectError, match=r"report\.html: access denied for UploadPart"):
        upload(file, {}, told.append)
    assert s3.uploads() == []


@pytest.mark.parametrize("name", ["upload", "put_small"])
def test_what_is_spoilt_on_its_way_is_sent_again(s3, place, tmp_path, name):
    send = {
        "upload": lambda: upload(file_of(tmp_path, place, b"content"), {}, lambda size: None),
        "put_small": lambda: put_small(place, b"content", {}, ""),
    }[name]
    s3.faults.add(Flip(3, sent=True), method="PUT", times=3)
    with pytest.raises(Spoilt, match=r"report\.html: what arrived had another checksum"):
        send()
    assert s3.keys() == [] and len(s3.faults.requests) == 3
    s3.faults.add(Flip(3, sent=True), method="PUT", times=2)
    send()
    assert s3.get(place.key) == b"content"


def test_a_text_replaces_only_what_its_writer_knows(s3, place):
    first = put_small(place, b"one", TAGS, "")
    assert s3.get(place.key) == b"one" and s3.tags(place.key) == TAGS
    for over in ("", f'"{"0" * 32}"'):
        with pytest.raises(Changed, match=r"report\.html: written by another process meanwhile"):
            put_small(place, b"two", {}, over)
    second = put_small(place, b"two", {}, first)
    assert s3.get(place.key) == b"two" and second == stored_checksum(place)[1] != first
    # The answer to a try that was carried out is lost: what is there is our own.
    s3.faults.add(Lost(), method="PUT")
    third = put_small(place, b"three", {}, second)
    assert third == stored_checksum(place)[1] and s3.get(place.key) == b"three"
    s3.faults.add(Status(409, "ConditionalRequestConflict"), method="PUT")
    with pytest.raises(Changed):
        put_small(place, b"four", {}, third)
    # A server that knows no conditions; one that refuses for another reason.
    s3.faults.add(Status(501, "NotImplemented"), method="PUT")
    put_small(place, b"five", TAGS, "of nobody")
    assert s3.get(place.key) == b"five" and s3.tags(place.key) == TAGS
    s3.faults.add(Status(403, "AccessDenied"), method="PUT")
    with pytest.raises(ObjectError, match="access denied for PutObject"):
        put_small(place, b"six", {}, "")
    s3.delete(place.key)
    with pytest.raises(NotThere):
        put_small(place, b"seven", {}, third)


def test_a_new_object_replaces_none(s3, place):
    put_small(place, b"one", {}, "")
    put_small(place, b"one", {}, "")  # as after an answer that was lost
    s3.faults.add(Lost(), method="PUT", target="other")
    put_small(Place(s3.name, "other"), b"two", {}, "")
    with pytest.raises(Changed, match=r"report\.html: written by another process meanwhile"):
        put_small(place, b"two", {}, "")
    assert s3.get(place.key) == b"one" and s3.get("other") == b"two"


def test_tags_of_an_object_are_replaced(s3, place):
    put_small(place, b"x", {"old": "1"}, "")
    tag(place, TAGS)
    assert s3.tags(place.key) == TAGS
    with pytest.raises(NotThere, match="gone: there is no such object"):
        tag(Place(s3.name, "gone"), TAGS)


def test_an_upload_ends_once(s3, place):
    begun = s3.client.create_multipart_upload(Bucket=s3.name, Key=place.key)["UploadId"]
    abort_upload(place, begun)
    assert s3.uploads() == []
    abort_upload(place, begun)
    s3.faults.add(Status(403, "AccessDenied"), method="DELETE")
    with pytest.raises(ObjectError, match="access denied for AbortMultipartUpload"):
        abort_upload(place, begun)


def test_a_place_is_tried_without_a_trace(s3):
    folder = Place(s3.name, "p")
    check_writable(folder, TAGS)
    assert s3.keys() == s3.uploads() == []
    begun = s3.faults.seen("POST", r"/p/\.writable\?uploads")
    assert [r.headers["x-amz-tagging"] for r in begun] == ["study=a%20b%2Bc&owner=x%3D%2F%40%3A"]
    listed = [r.target.partition("?")[2] for r in s3.faults.seen("GET")]
    assert ["prefix=p/" in query for query in listed] == [True, True]
    for method, target, name in (
        ("POST", "", "CreateMultipartUpload"),
        ("GET", "list-type=2", "ListObjectsV2"),
        ("GET", r"\?uploads", "ListMultipartUploads"),
    ):
        s3.faults.add(Status(403, "AccessDenied"), method=method, target=target)
        with pytest.raises(ObjectError, match=f"access denied for {name}"):
            check_writable(folder, TAGS)
    assert s3.uploads() == []


def test_a_text_of_a_data_set_takes_the_place_of_the_one_before(s3, tmp_path):
    storage = storage_of("s3://bucket/set", tmp_path)
    for text in ("first", "second"):
        storage.write_text("settings.json", text)
    assert storage.read_bytes("settings.json") == b"second"
    methods = [request.method for request in s3.faults.requests]
    assert methods == ["DELETE", "PUT"] * 2 + ["GET"]
