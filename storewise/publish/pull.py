"""A publication back to a directory: each file is checked, what is there is not fetched again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from boto3.s3.transfer import TransferConfig

from storewise.analysis.common.text import some_of
from storewise.errors import StorewiseError
from storewise.layout import TRIALS
from storewise.publish.manifest import MANIFEST, Entry, Manifest, read_manifest
from storewise.publish.push import Progress
from storewise.s3.checksums import digest_file
from storewise.s3.client import NotThere, ObjectError, Spoilt, explained, in_threads, s3
from storewise.s3.uri import Place

#: Files are fetched at once, not their parts.
_TRANSFER = TransferConfig(use_threads=False)
#: Files that an error names.
_NAMED = 5
_FOLDERS = 10
#: What a file is called until it is whole: by its own name and its content, and while it comes with
#: a suffix of boto3's.
_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial(\.\w+)?", re.DOTALL)


def publication(folder: Place) -> Manifest:
    """The manifest of a publication; ObjectError where there is none, or only half of one."""
    try:
        manifest = read_manifest(folder)
    except NotThere as error:
        raise ObjectError(_what_is_there(folder)) from error
    if not manifest.complete:
        raise ObjectError(
            f"{folder}: half a publication: it is being written, or was interrupted in that; where "
            "no `storewise publish` is at work, run it again where the results are: it goes on "
            "where it has ended"
        )
    return manifest


def _what_is_there(folder: Place) -> str:
    """The error for a place without a manifest, with what there is instead."""
    with explained(folder):
        page = s3().list_objects_v2(
            Bucket=folder.bucket, Prefix=folder.folder().key, Delimiter="/", MaxKeys=1000
        )
    folders = [item["Prefix"] for item in page.get("CommonPrefixes", ())]
    names = {name.removeprefix(folder.folder().key).rstrip("/") for name in folders}
    if TRIALS in names:
        return (
            f"{folder}: objects of a publication without its {MANIFEST}; run `storewise publish` "
            "again where the results are: it sends what is missing"
        )
    if folders:
        shown = ", ".join(str(Place(folder.bucket, name)) for name in sorted(folders)[-_FOLDERS:])
        return f"{folder}: no publication ({MANIFEST} is missing); the folders in it are {shown}"
    return f"{folder}: there is no publication, and nothing else"


def missing(manifest: Manifest, target: Path, progress: Progress) -> tuple[list[Entry], list[Path]]:
    """The files of a publication that `target` does not have as they are to be, and which of
    these are there with other content. Reads every file that is there."""
    wanted: list[Entry] = []
    differing: list[Path] = []

    def look(entry: Entry) -> bool | None:
        path = target / entry.path
        if not path.is_file():
            if path.exists():
                raise StorewiseError(f"{path}: not a file; the publication has a file there")
            return None
        if path.stat().st_size != entry.bytes:
            return False
        return digest_file(path).sha256 == entry.sha256

    for done, (entry, same) in enumerate(in_threads(look, manifest.files), 1):
        if same is not True:
            wanted.append(entry)
        if same is False:
            differing.append(target / entry.path)
        progress(done, len(manifest.files))
    return sorted(wanted, key=lambda entry: entry.path), sorted(differing)


def fetch(folder: Place, wanted: Sequence[Entry], target: Path, progress: Progress) -> None:
    """Fetch files of a publication to below `target`.

    Each is written aside and renamed when its SHA-256 is that of the manifest; the next call begins
    a file again that was interrupted.
    """
    total = sum(entry.bytes for entry in wanted)
    _check_space(target, total)
    parents = sorted({(target / entry.path).parent for entry in wanted})
    for parent in parents:
        parent.mkdir(parents=True, exist_ok=True)
    done = 0
    for entry, _ in in_threads(lambda entry: _fetch_one(folder, entry, target), wanted):
        done += entry.bytes
        progress(done, total)
    whole = {target / entry.path for entry in wanted}
    for parent in parents:
        for path in parent.glob(".*.partial*"):
            # What an interruption left.
            if (name := _ASIDE.fullmatch(path.name)) and parent / name[1] in whole:
                path.unlink(missing_ok=True)


def named(paths: Sequence[Path]) -> str:
    """The first few files, for an error message."""
    return some_of(list(map(str, paths)), _NAMED)


def _check_space(target: Path, needed: int) -> None:
    there = next(path for path in (target, *target.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise StorewiseError(
            f"{target}: {needed} bytes are to be fetched, but {free} are free; make room there or "
            "name another directory"
        )


def _aside(target: Path, entry: Entry) -> Path:
    path = target / entry.path
    # Named by its content: pulls of two publications do not write one file.
    return path.with_name(f".{path.name}.{entry.sha256[:16]}.partial")


def _fetch_one(folder: Place, entry: Entry, target: Path) -> None:
    path = target / entry.path
    place = folder.below(entry.path)
    aside = _aside(target, entry)
    try:
        # A second time for what was spoilt on its way.
        whole = _is_whole(place, entry, aside) or _is_whole(place, entry, aside)
    except OSError as error:
        # That of a write, such as on a full disk, has no name.
        raise OSError(error.errno, error.strerror, error.filename or str(aside)) from error
    if not whole:
        aside.unlink(missing_ok=True)
        raise ObjectError(
            f"{place}: not what {MANIFEST} says ({entry.bytes} bytes, SHA-256 {entry.sha256}): it "
            "was damaged, replaced or deleted since; publish the results again where they were "
            "measured"
        )
    os.utime(aside, ns=(entry.modified_ns, entry.modified_ns))
    aside.replace(path)


def _is_whole(place: Place, entry: Entry, aside: Path) -> bool:
    """Fetch an object; whether it has the content of its entry."""
    try:
        with explained(place):
            s3().download_file(place.bucket, place.key, os.fspath(aside), Config=_TRANSFER)
    except (NotThere, Spoilt):
        return False
    return digest_file(aside).sha256 == entry.sha256
