"""Files to a folder on S3: what is there already stays, what is new or changed goes up, and the
manifest comes last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from storewise.publish.manifest import MANIFEST, Entry, Manifest, manifest_or_none
from storewise.s3.checksums import Digest, digest_file
from storewise.s3.client import Changed, NotThere, ObjectError, explained, s3
from storewise.s3.threads import in_threads
from storewise.s3.upload import (
    Sending,
    Tags,
    abort_upload,
    changed,
    put,
    put_in_parts,
    put_text,
    stored_checksum,
    tag,
)
from storewise.s3.uri import Place

#: Told bytes that are done and bytes in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Local:
    """A file to be published as `name` (relative, with slashes)."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a listing tells it."""

    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a publication has to do."""

    folder: Place
    manifest: Manifest
    """As it is to be; ETags of what goes up are still empty."""
    old: Manifest | None
    old_etag: str
    """Of the manifest that is there, empty where there is none."""
    files: Sequence[Local]
    """Those of the manifest, in its order."""
    sending: Sequence[Sending]
    kept: Mapping[str, str]
    """ETags of objects that stay, by name."""
    retagged: bool
    """Whether what stays needs the tags again."""
    extra: int
    """Objects in the folder that belong to no file: results that have been deleted since."""

    @property
    def bytes(self) -> int:
        """Bytes that go up."""
        return sum(file.digest.size for file in self.sending)

    @property
    def nothing_new(self) -> bool:
        """Whether the folder is already what it is to be."""
        return (
            not self.sending
            and not self.retagged
            and self.old is not None
            and self.old.complete
            and self.old.says_the_same(_with_etags(self.manifest, self.kept))
        )


def stored(folder: Place) -> dict[str, Stored]:
    """The objects below a folder by their names in it."""
    found: dict[str, Stored] = {}
    prefix = folder.folder().key
    with explained(folder):
        pages = s3().get_paginator("list_objects_v2").paginate(Bucket=folder.bucket, Prefix=prefix)
        for page in pages:
            for item in page.get("Contents", ()):
                found[item["Key"].removeprefix(prefix)] = Stored(item["Size"], item["ETag"])
    return found


def plan(folder: Place, files: Sequence[Local], head: Manifest, progress: Progress) -> Plan:
    """What is to be done so that `folder` holds `files`; reads each of them, writes nothing.

    `head` is the manifest to be, without files. A file of the manifest's name (of a folder that
    another tool has copied) is none of them.
    """
    files = [file for file in files if file.name != MANIFEST]
    there = stored(folder)
    old = manifest_or_none(folder) if MANIFEST in there else None
    known = {entry.path: entry for entry in old.files} if old is not None else {}

    def look(file: Local) -> tuple[Digest, int, str | None]:
        digest, modified_ns = _read(file)
        return digest, modified_ns, kept_as(file, digest)

    def kept_as(file: Local, digest: Digest) -> str | None:
        object_ = there.get(file.name)
        if object_ is None or object_.size != digest.size:
            return None
        entry = known.get(file.name)
        if entry is not None and (entry.etag, entry.sha256) == (object_.etag, digest.sha256):
            return object_.etag
        checksum, etag = stored_checksum(folder.below(file.name))
        return etag if digest.is_told_by(checksum) else None

    found: dict[str, tuple[Digest, int, str | None]] = {}
    for file, about in in_threads(look, files):
        found[file.name] = about
        progress(len(found), len(files))
    kept = {name: etag for name, (_, _, etag) in found.items() if etag is not None}
    entries = tuple(
        Entry(
            path=file.name,
            bytes=found[file.name][0].size,
            sha256=found[file.name][0].sha256,
            modified_ns=found[file.name][1],
            etag="",
        )
        for file in files
    )
    return Plan(
        folder=folder,
        manifest=head.model_copy(update={"files": entries}),
        old=old,
        old_etag=there[MANIFEST].etag if MANIFEST in there else "",
        files=files,
        sending=[
            Sending(file.path, folder.below(file.name), found[file.name][0])
            for file in files
            if file.name not in kept
        ],
        kept=kept,
        # Who was interrupted may have had other tags.
        retagged=bool(kept) and (old is None or not old.complete or old.tags != head.tags),
        extra=len(there.keys() - found.keys() - {MANIFEST}),
    )


def carry_out(todo: Plan, progress: Progress) -> None:
    """Upload what a plan says, and the manifest last.

    After any error or interruption a new plan goes on where this one has ended, and until then the
    folder has no complete manifest. Of two that publish to one folder at a time, the one that
    has begun first raises ObjectError at its end.
    """
    if todo.nothing_new:
        return
    folder, tags = todo.folder, todo.manifest.tags
    before = todo.old or todo.manifest.model_copy(update={"files": ()})
    begun = before.model_copy(update={"complete": False, "writer": uuid4().hex})
    over = _put_manifest(folder, begun, before.tags, todo.old_etag)
    etags = dict(todo.kept)
    prefix = len(folder.folder().key)
    total, done = todo.bytes, 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    interrupted = _interrupted(folder)
    small = [file for file in todo.sending if not file.digest.parts]
    large = [file for file in todo.sending if file.digest.parts]
    for file, etag in in_threads(lambda file: _put(file, tags), small):
        etags[file.place.key[prefix:]] = etag
        advance(file.digest.size)
    for file in large:
        uploads = interrupted.pop(file.place.key, [])
        with _readable(file.path):
            etags[file.place.key[prefix:]] = put_in_parts(file, tags, uploads, advance)
        if uploads:
            tag(file.place, tags)  # it was begun with those of then
    if todo.retagged:
        for _ in in_threads(lambda name: tag(folder.below(name), tags), todo.kept):
            progress(done, total)
    for key, uploads in interrupted.items():
        for upload in uploads:
            abort_upload(Place(folder.bucket, key), upload)
    _check_unchanged(todo)
    done_now = _with_etags(todo.manifest, etags)
    _check_stored(folder, done_now)
    _put_manifest(folder, done_now, tags, over)


def _put_manifest(folder: Place, manifest: Manifest, tags: Tags, over: str) -> str:
    """Write the manifest in place of the one that was there when the folder was listed."""
    try:
        return put_text(folder.below(MANIFEST), manifest.text(), tags, over)
    except (Changed, NotThere) as error:
        raise ObjectError(_two(f"{folder}: {MANIFEST} was")) from error


def _check_unchanged(todo: Plan) -> None:
    """Raises ObjectError where a file is another one than when the plan was made: what is
    published is of one moment, such as one analysis."""
    for file, entry in zip(todo.files, todo.manifest.files, strict=True):
        with _readable(file.path):
            if file.path.stat().st_mtime_ns != entry.modified_ns:
                raise ObjectError(changed(file.path))


def _check_stored(folder: Place, manifest: Manifest) -> None:
    """Raises ObjectError where an object is not the one that the manifest is to name."""
    there = stored(folder)
    for entry in manifest.files:
        found = there.get(entry.path)
        # Some servers quote it in one answer and not in the other.
        if found is None or found.etag.strip('"') != entry.etag.strip('"'):
            raise ObjectError(_two(f"{folder.below(entry.path)} was"))


def _two(what: str) -> str:
    return (
        f"{what} written or deleted by another process meanwhile; is one publishing to the same "
        "folder? Publish again when it has ended"
    )


def _with_etags(manifest: Manifest, etags: Mapping[str, str]) -> Manifest:
    files = tuple(
        entry.model_copy(update={"etag": etags.get(entry.path, "")}) for entry in manifest.files
    )
    return manifest.model_copy(update={"files": files})


def _read(file: Local) -> tuple[Digest, int]:
    """Digest and time of a file. The time is that of the open file: of a path NFS may tell one that
    is out of date."""
    with _readable(file.path), file.path.open("rb") as opened:
        modified_ns = os.fstat(opened.fileno()).st_mtime_ns
        return digest_file(file.path), modified_ns


def _put(file: Sending, tags: Tags) -> str:
    with _readable(file.path):
        return put(file, tags)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectError(f"{path}: {error.strerror}; it cannot be published") from error


def _interrupted(folder: Place) -> dict[str, list[str]]:
    """Uploads in parts below a folder that were interrupted, by key, the latest first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for key, initiated, upload in _uploads(folder):
        found.setdefault(key, []).append((initiated, upload))
    return {
        key: [upload for _, upload in sorted(uploads, reverse=True)]
        for key, uploads in found.items()
    }


def _uploads(folder: Place) -> Iterator[tuple[str, str, str]]:
    with explained(folder):
        pages = (
            s3()
            .get_paginator("list_multipart_uploads")
            .paginate(Bucket=folder.bucket, Prefix=folder.folder().key)
        )
        for page in pages:
            for item in page.get("Uploads", ()):
                yield item["Key"], item["Initiated"].isoformat(), item["UploadId"]
