"""Files to a folder on S3: what is there already stays, what is new or changed goes up, and the
manifest comes last."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from threading import Lock
from uuid import uuid4

from rich.filesize import decimal

from storewise import __version__
from storewise.atomic import write_aside
from storewise.layout import FAILED, PUBLISHED, TRIALS
from storewise.publish.manifest import MANIFEST, Entry, Manifest, manifest_or_none
from storewise.publish.results import Local, run_of, select, stored_study
from storewise.s3.checksums import Digest, digest_file
from storewise.s3.client import Changed, NotThere, ObjectError, explained, in_threads, s3
from storewise.s3.listing import below
from storewise.s3.upload import (
    Sending,
    Tags,
    abort_upload,
    changed,
    overtaken,
    put_small,
    stored_checksum,
    tag,
    upload,
)
from storewise.s3.uri import Place, Stat
from storewise.study.publication import Publish, as_time, folder_of, tags_of

#: Told bytes that are done and bytes in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a publication: files to upload and the manifest."""

    folder: Place
    manifest: Manifest
    """The manifest to write; ETags of files to upload are still empty."""
    old: Manifest | None
    old_etag: str
    """ETag of the existing manifest, empty if there is none."""
    files: Sequence[Local]
    """The files of the manifest, in its order."""
    sending: Sequence[Sending]
    kept: Mapping[str, str]
    """ETags of objects that stay, by name."""
    retagged: bool
    """Whether what stays needs the tags again."""
    extra: int
    """Objects in the folder that belong to no file: results that have been deleted since."""

    @property
    def bytes(self) -> int:
        """Bytes to upload."""
        return sum(file.digest.size for file in self.sending)

    @property
    def nothing_new(self) -> bool:
        """Whether the folder has this content already, apart from the time of its manifest."""
        if self.sending or self.retagged or self.old is None or not self.old.complete:
            return False
        times = {"published": self.old.published}
        return self.old == _with_etags(self.manifest, self.kept).model_copy(update=times)


def stored(folder: Place) -> dict[str, Stat]:
    """The objects below a folder by their names in it."""
    top = folder.folder()
    return {key.removeprefix(top.key): stat for key, stat in below(top)}


def plan_of(
    results: Path, publish: Publish, progress: Progress, config: Path | None = None
) -> Plan:
    """What is to be uploaded so that a study's results are published whole, with `config` in place
    of their own `CONFIG`.

    Reads all of them and lists what is there, writes nothing; `write_config` comes before. A file
    of the manifest's name (of a folder that another tool has copied) is none of them.
    """
    study = str(stored_study(results)["name"])
    started = run_of(results).started
    folder, tags = folder_of(publish, study, started), tags_of(publish, study, started)
    files = [file for file in select(results, config) if file.name != MANIFEST]
    there = stored(folder)
    old = manifest_or_none(folder) if MANIFEST in there else None
    known = {entry.path: entry for entry in old.files} if old is not None else {}

    def look(file: Local) -> tuple[Digest, str | None]:
        """Digest, and the ETag of the object where it has the same content."""
        with _readable(file.path):
            digest = digest_file(file.path)
        object_ = there.get(file.name)
        if object_ is None or object_.size != digest.size:
            return digest, None
        entry = known.get(file.name)
        if entry is not None and (entry.etag, entry.sha256) == (object_.etag, digest.sha256):
            return digest, object_.etag
        checksum, etag = stored_checksum(folder.below(file.name))
        return digest, etag if digest.fits(checksum) else None

    digests: dict[str, Digest] = {}
    kept: dict[str, str] = {}
    for file, (digest, etag) in in_threads(look, files):
        digests[file.name] = digest
        if etag is not None:
            kept[file.name] = etag
        progress(len(digests), len(files))
    entries = tuple(
        Entry(
            path=name,
            bytes=digests[name].size,
            sha256=digests[name].sha256,
            modified_ns=digests[name].modified_ns,
            etag="",
        )
        for name in (file.name for file in files)
    )
    return Plan(
        folder=folder,
        manifest=Manifest(
            complete=True,
            study=study,
            name=publish.name,
            run=as_time(started),
            storewise=__version__,
            published=as_time(time.time()),
            tags=tags,
            files=entries,
        ),
        old=old,
        old_etag=there[MANIFEST].etag if MANIFEST in there else "",
        files=files,
        sending=[
            Sending(file.path, folder.below(file.name), digests[file.name])
            for file in files
            if file.name not in kept
        ],
        kept=kept,
        # Who was interrupted may have had other tags.
        retagged=bool(kept) and (old is None or not old.complete or old.tags != tags),
        extra=len(there.keys() - digests.keys() - {MANIFEST}),
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
    _end_uploads(folder)
    etags = dict(todo.kept)
    prefix = len(folder.folder().key)
    total, done = todo.bytes, 0
    counting = Lock()

    def advance(size: int) -> None:
        nonlocal done
        with counting:
            done += size
            progress(done, total)

    def send(file: Sending) -> str:
        with _readable(file.path):
            return upload(file, tags, advance)

    for file, etag in in_threads(send, todo.sending):
        etags[file.place.key[prefix:]] = etag
        if not file.digest.parts:
            advance(file.digest.size)
    if todo.retagged:
        for _ in in_threads(lambda name: tag(folder.below(name), tags), todo.kept):
            progress(done, total)
    _check_unchanged(todo)
    done_now = _with_etags(todo.manifest, etags)
    _check_stored(folder, done_now)
    _put_manifest(folder, done_now, tags, over)


def _put_manifest(folder: Place, manifest: Manifest, tags: Tags, over: str) -> str:
    """Write the manifest in place of the one that was there when the folder was listed."""
    try:
        return put_small(folder.below(MANIFEST), manifest.text().encode(), tags, over)
    except (Changed, NotThere) as error:
        raise ObjectError(overtaken(f"{folder}: {MANIFEST} was")) from error


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
        object_ = there.get(entry.path)
        # Some servers quote it in one answer and not in the other.
        if object_ is None or object_.etag.strip('"') != entry.etag.strip('"'):
            raise ObjectError(overtaken(f"{folder.below(entry.path)} was"))


def _with_etags(manifest: Manifest, etags: Mapping[str, str]) -> Manifest:
    files = tuple(
        entry.model_copy(update={"etag": etags.get(entry.path, "")}) for entry in manifest.files
    )
    return manifest.model_copy(update={"files": files})


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectError(f"{path}: {error.strerror}; it cannot be published") from error


def _end_uploads(folder: Place) -> None:
    """End uploads in parts below a folder that were interrupted: their parts cost storage."""
    with explained(folder):
        pages = s3().get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=folder.bucket, Prefix=folder.folder().key):
            for item in page.get("Uploads", ()):
                abort_upload(Place(folder.bucket, item["Key"]), item["UploadId"])


def summary(done: Plan) -> str:
    """A sentence that sums up the publication."""
    files = len(done.manifest.files)
    size = sum(entry.bytes for entry in done.manifest.files)
    if done.nothing_new:
        what = "nothing is new"
    elif not done.sending:
        what = "tags or manifest are new"
    else:
        what = f"{len(done.sending)} new or changed ({decimal(done.bytes)})"
    extra = (
        f"; {done.extra} further objects there are of no file that is in the results now"
        if done.extra
        else ""
    )
    failed = sum(
        PurePath(entry.path).match(f"{TRIALS}/*/{FAILED}") for entry in done.manifest.files
    )
    lost = f"; {failed} of its trials failed, the report says why" if failed else ""
    return f"{done.folder}: {files} files ({decimal(size)}), {what}{lost}{extra}"


def remember(results: Path, done: Plan) -> None:
    """Note in the results where they were published."""
    text = json.dumps(
        {"place": str(done.folder), "run": done.manifest.run, "files": len(done.manifest.files)}
    )
    write_aside(results / PUBLISHED, text + "\n")
