"""One file to one object, with checksums that S3 checks, and parts that outlive an interruption."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import quote, urlencode

from botocore.exceptions import ClientError
from s3transfer.utils import ReadFileChunk

from storewise.s3.checksums import Digest, as_base64, digest_file, part_bytes
from storewise.s3.client import Changed, ObjectError, code_of, explained, s3
from storewise.s3.threads import in_threads
from storewise.s3.uri import Place

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, PartTypeDef

#: How often content is sent that arrives as another one.
SENDS = 3
#: S3's answers to content that has not the checksum that came with it.
_SPOILT = {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"}
#: S3's answers to a condition that does not hold: another object, none, or one that comes now.
_OTHER = {"PreconditionFailed", "NoSuchKey", "ConditionalRequestConflict"}
#: What a browser is told of an object.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    **dict.fromkeys((".log", ".yaml", ".yml", ".txt", ".tsv"), "text/plain; charset=utf-8"),
}

Tags = Mapping[str, str]
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Sending:
    """A file that goes up: its content was `digest` when it was read."""

    path: Path
    place: Place
    digest: Digest


def _query(tags: Tags) -> str:
    # A space as %20: a plus sign is one of the characters that tags may have.
    return urlencode(tags, quote_via=quote)


def content_type(name: str) -> str:
    return _TYPES.get(os.path.splitext(name)[1], "application/octet-stream")  # noqa: PTH122


def put(file: Sending, tags: Tags) -> str:
    """Upload a file in one request; returns the object's ETag.

    Raises ObjectError where S3 refuses it, and where the file is no longer what was read.
    """

    def send() -> str:
        with _content(file.path, 0, file.digest.size) as body:
            return _put(file.place, body, bytes.fromhex(file.digest.sha256), tags)

    return _until_whole(send, file.place, file)


def put_text(place: Place, text: str, tags: Tags, over: str) -> str:
    """Write a text as an object; returns its ETag.

    `over` is the ETag of the object that it replaces, empty where there is none. Raises Changed
    where there is another one.
    """
    content = text.encode()
    digest = hashlib.sha256(content).digest()
    condition = {"IfMatch": over} if over else {"IfNoneMatch": "*"}

    def send() -> str:
        try:
            return _put(place, content, digest, tags, **condition)
        except ClientError as error:
            if code_of(error) == "NotImplemented":  # by a server that is not Amazon's
                return _put(place, content, digest, tags)
            if code_of(error) not in _OTHER:
                raise
            # The answer to an earlier try may have been lost after S3 had done it.
            told, etag = stored_checksum(place)
            if told != as_base64(digest):
                raise Changed(f"{place}: written by another process meanwhile") from error
            return etag

    return _until_whole(send, place)


def _put(place: Place, body: BinaryIO | bytes, sha256: bytes, tags: Tags, **condition: str) -> str:
    return s3().put_object(
        Bucket=place.bucket,
        Key=place.key,
        Body=body,
        ContentType=content_type(place.key),
        ChecksumAlgorithm="SHA256",
        ChecksumSHA256=as_base64(sha256),
        Tagging=_query(tags),
        **condition,  # type: ignore[arg-type]
    )["ETag"]


def put_in_parts(file: Sending, tags: Tags, begun: Sequence[str], advance: Advance) -> str:
    """Upload a large file; returns the object's ETag.

    `begun` are uploads to this key that were interrupted, the latest first: parts of the latest
    that are parts of this content are kept, the other uploads are ended. `advance` is told the
    bytes of each part that is there.
    """
    length = part_bytes(file.digest.size)
    for other in begun[1:]:
        abort_upload(file.place, other)
    kept = _kept(file, begun[0]) if begun else None
    upload = begun[0] if kept is not None else _begin(file, tags)
    kept = kept or {}
    for number in kept:
        advance(_size(file, number, length))

    def send(number: int) -> str:
        return _send_part(file, upload, number, length)

    etags = dict(kept)
    missing = [n for n in range(1, len(file.digest.parts) + 1) if n not in kept]
    for number, etag in in_threads(send, missing):
        etags[number] = etag
        advance(_size(file, number, length))
    return _complete(file, upload, etags)


def stored_checksum(place: Place) -> tuple[str | None, str]:
    """S3's SHA-256 of an object (None where it has none) and its ETag."""
    with explained(place):
        answer = s3().head_object(Bucket=place.bucket, Key=place.key, ChecksumMode="ENABLED")
    return answer.get("ChecksumSHA256"), answer["ETag"]


def tag(place: Place, tags: Tags) -> None:
    """Give an object these tags and no others."""
    found = [{"Key": key, "Value": value} for key, value in tags.items()]
    with explained(place):
        s3().put_object_tagging(
            Bucket=place.bucket,
            Key=place.key,
            Tagging={"TagSet": found},  # type: ignore[typeddict-item]
        )


def abort_upload(place: Place, upload: str) -> None:
    """End an upload that was interrupted; its parts, which cost storage, are deleted."""
    with explained(place):
        try:
            s3().abort_multipart_upload(Bucket=place.bucket, Key=place.key, UploadId=upload)
        except ClientError as error:
            if code_of(error) != "NoSuchUpload":
                raise


def check_writable(folder: Place, tags: Tags) -> None:
    """Raises ObjectError where nothing can be written below `folder`, or what is there cannot be
    listed. Leaves nothing there: an upload is begun and ended."""
    place = folder.below(".writable")
    with explained(place):
        upload = s3().create_multipart_upload(
            Bucket=place.bucket, Key=place.key, Tagging=_query(tags)
        )["UploadId"]
    abort_upload(place, upload)
    bucket, prefix = folder.bucket, folder.folder().key
    with explained(folder):
        s3().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        s3().list_multipart_uploads(Bucket=bucket, Prefix=prefix, MaxUploads=1)


def _begin(file: Sending, tags: Tags) -> str:
    with explained(file.place):
        return s3().create_multipart_upload(
            Bucket=file.place.bucket,
            Key=file.place.key,
            ContentType=content_type(file.place.key),
            ChecksumAlgorithm="SHA256",
            ChecksumType="COMPOSITE",
            Tagging=_query(tags),
        )["UploadId"]


def _size(file: Sending, number: int, length: int) -> int:
    return min(length, file.digest.size - (number - 1) * length)


def _kept(file: Sending, upload: str) -> dict[int, str] | None:
    """ETags by number of the parts of an interrupted upload that are parts of this file; None where
    it has gone since it was listed (a life-cycle rule, another process)."""
    length = part_bytes(file.digest.size)
    found: dict[int, str] = {}
    with explained(file.place):
        pages = (
            s3()
            .get_paginator("list_parts")
            .paginate(Bucket=file.place.bucket, Key=file.place.key, UploadId=upload)
        )
        try:
            for page in pages:
                for part in page.get("Parts", ()):
                    number = part["PartNumber"]
                    if number <= len(file.digest.parts) and _is_part(file, part, length):
                        found[number] = part["ETag"]
        except ClientError as error:
            if code_of(error) != "NoSuchUpload":
                raise
            return None
    return found


def _is_part(file: Sending, part: PartTypeDef, length: int) -> bool:
    number = part["PartNumber"]
    size = _size(file, number, length)
    if part["Size"] != size:
        return False
    told = part.get("ChecksumSHA256")
    if told is not None:
        return told == as_base64(file.digest.parts[number - 1])
    # Servers that are not Amazon's may list parts without checksums; their ETags are MD5.
    with file.path.open("rb") as content:
        content.seek((number - 1) * length)
        md5 = hashlib.md5(content.read(size), usedforsecurity=False).hexdigest()
    return part["ETag"].strip('"') == md5


def _send_part(file: Sending, upload: str, number: int, length: int) -> str:
    def send() -> str:
        with _content(file.path, (number - 1) * length, _size(file, number, length)) as body:
            return s3().upload_part(
                Bucket=file.place.bucket,
                Key=file.place.key,
                UploadId=upload,
                PartNumber=number,
                Body=body,
                ChecksumAlgorithm="SHA256",
                ChecksumSHA256=as_base64(file.digest.parts[number - 1]),
            )["ETag"]

    return _until_whole(send, file.place, file)


def _until_whole(send: Callable[[], str], place: Place, file: Sending | None = None) -> str:
    """What `send` returns, tried again where S3 says that other content arrived."""
    for _ in range(SENDS):
        with explained(place):
            try:
                return send()
            except ClientError as error:
                if code_of(error) not in _SPOILT:
                    raise
        if file is not None and digest_file(file.path) != file.digest:
            raise ObjectError(changed(file.path))
    raise ObjectError(
        f"{place}: what arrived had another checksum than what was sent, {SENDS} times; something "
        "on the way spoils it: check the network and proxies"
    )


def changed(path: Path) -> str:
    return f"{path}: changed while it was published; publish again when nothing writes it"


def _complete(file: Sending, upload: str, etags: Mapping[int, str]) -> str:
    parts: list[CompletedPartTypeDef] = [
        {
            "PartNumber": number,
            "ETag": etags[number],
            "ChecksumSHA256": as_base64(file.digest.parts[number - 1]),
        }
        for number in sorted(etags)
    ]
    lost = False
    with explained(file.place):
        try:
            s3().complete_multipart_upload(
                Bucket=file.place.bucket,
                Key=file.place.key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                ChecksumType="COMPOSITE",
            )
        except ClientError as error:
            # The answer to an earlier try may have been lost after S3 had done it.
            if code_of(error) != "NoSuchUpload":
                raise
            lost = True
    # An answer that was cut may look like one without words, so the object itself is asked.
    told, etag = stored_checksum(file.place)
    if not file.digest.is_told_by(told) and (lost or told is not None):
        raise ObjectError(
            f"{file.place}: S3 has put other parts together than were sent; is another process "
            "publishing to the same folder? Publish again when it has ended"
        )
    return etag


@contextmanager
def _content(path: Path, start: int, size: int) -> Iterator[BinaryIO | bytes]:
    """A part of a file that can be read again from its start, and never as a whole in memory."""
    if size == 0:
        yield b""
        return
    with ReadFileChunk.from_filename(os.fspath(path), start, size) as body:
        yield cast(BinaryIO, body)
