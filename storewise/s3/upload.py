"""One file to one object, with checksums that S3 checks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from storewise.s3 import checksums
from storewise.s3.checksums import Digest, as_base64, digest_file
from storewise.s3.client import Changed, NoUpload, ObjectError, Spoilt, code_of, explained, s3
from storewise.s3.uri import Place

T = TypeVar("T")
#: How often content is sent that arrives as another one.
SENDS = 3
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


@dataclass(frozen=True, slots=True)
class Sending:
    """A file to upload, whose content had `digest` when it was read."""

    path: Path
    place: Place
    digest: Digest


def _query(tags: Tags) -> str:
    # A space as %20: a plus sign is one of the characters that tags may have.
    return urlencode(tags, quote_via=quote)


def _tagging(tags: Tags) -> dict[str, str]:
    """The parameter of a request; without tags none, for which no right to tag is needed."""
    return {"Tagging": _query(tags)} if tags else {}


def _content_type(name: str) -> str:
    return _TYPES.get(os.path.splitext(name)[1], "application/octet-stream")  # noqa: PTH122


def upload(file: Sending, tags: Tags, advance: Callable[[int], None]) -> str:
    """Upload a file, in parts where it is large; returns the object's ETag.

    `advance` gets the bytes of a large file as they go up, from any thread. Raises ObjectError
    where S3 refuses the file, and where it is no longer what was read, OSError where it cannot be
    read.
    """
    place, digest = file.place, file.digest
    if not digest.parts:
        content = file.path.read_bytes()
        sha256 = hashlib.sha256(content).digest()
        if sha256.hex() != digest.sha256:
            raise ObjectError(changed(file.path))
        return _until_whole(place, lambda: _put(place, content, sha256, tags))
    with suppress(NoUpload):  # the answer to a try that completed it may have been lost
        _until_whole(place, lambda: _upload_parts(file, tags, advance))
    checksum, etag = stored_checksum(place)
    if checksum is None or digest.fits(checksum):
        return etag
    if digest_file(file.path) != digest:
        raise ObjectError(changed(file.path))
    raise ObjectError(overtaken(f"{place} was"))


def _upload_parts(file: Sending, tags: Tags, advance: Callable[[int], None]) -> None:
    s3().upload_file(
        os.fspath(file.path),
        file.place.bucket,
        file.place.key,
        ExtraArgs={
            "ChecksumAlgorithm": "SHA256",
            "ContentType": _content_type(file.place.key),
            **_tagging(tags),
        },
        Callback=advance,
        Config=TransferConfig(
            multipart_threshold=checksums.PART,
            multipart_chunksize=checksums.PART,
            # The other one, where it is installed, cuts files in a way of its own.
            preferred_transfer_client="classic",
        ),
    )


def _until_whole(place: Place, send: Callable[[], T]) -> T:
    """Call `send`, again if S3 says that other content arrived; returns its result."""
    for _ in range(SENDS - 1):
        with suppress(Spoilt), explained(place):
            return send()
    with explained(place):
        return send()


def put_small(place: Place, content: bytes, tags: Tags, over: str) -> str:
    """Write a small object whole; returns its ETag.

    `over` is the ETag of the object that it replaces, empty where there is none. Raises Changed
    where there is another one; an equal one is what a try left whose answer was lost.
    """
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
            checksum, etag = stored_checksum(place)
            if checksum != as_base64(digest):
                raise Changed(f"{place}: written by another process meanwhile") from error
            return etag

    return _until_whole(place, send)


def _put(place: Place, body: bytes, sha256: bytes, tags: Tags, **condition: str) -> str:
    etag: str = s3().put_object(
        Bucket=place.bucket,
        Key=place.key,
        Body=body,
        ContentType=_content_type(place.key),
        ChecksumAlgorithm="SHA256",
        ChecksumSHA256=as_base64(sha256),
        **_tagging(tags),
        **condition,
    )["ETag"]
    return etag


def stored_checksum(place: Place) -> tuple[str | None, str]:
    """S3's SHA-256 of an object (None where it has none) and its ETag."""
    with explained(place):
        answer = s3().head_object(Bucket=place.bucket, Key=place.key, ChecksumMode="ENABLED")
    return answer.get("ChecksumSHA256"), answer["ETag"]


def tag(place: Place, tags: Tags) -> None:
    """Give an object these tags and no others."""
    with explained(place):
        s3().put_object_tagging(
            Bucket=place.bucket,
            Key=place.key,
            Tagging={"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]},
        )


def abort_upload(place: Place, upload: str) -> None:
    """End an upload that was interrupted; its parts, which cost storage, are deleted."""
    with suppress(NoUpload), explained(place):
        s3().abort_multipart_upload(Bucket=place.bucket, Key=place.key, UploadId=upload)


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


def changed(path: Path) -> str:
    return f"{path}: changed while it was published; publish again when nothing writes it"


def overtaken(what: str) -> str:
    return (
        f"{what} written or deleted by another process meanwhile; is one publishing to the same "
        "folder? Publish again when it has ended"
    )
