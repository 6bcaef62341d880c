"""Objects on S3 below a prefix, page by page, and single ones."""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from storewise.s3.client import NotThere, ObjectError, code_of, explained, no_bucket, s3
from storewise.s3.uri import Place, Stat, parse

_SECOND = 1_000_000_000
#: A glob begins at the first of these, as in Python's `glob`.
_MAGIC = re.compile(r"[*?[]")
#: Below this many objects each is asked for by itself: cheaper, and needs no right to list.
_FEW = 3


def version(etag: str) -> int:
    """A number below 10^9 that stands for an ETag: equal for equal ETags."""
    return int.from_bytes(hashlib.blake2b(etag.encode(), digest_size=8).digest(), "big") % _SECOND


def version_of(mtime_ns: int) -> int:
    """The `version` in a `Stat.mtime_ns`."""
    return mtime_ns % _SECOND


def _stat(listed: Mapping[str, Any]) -> Stat:
    """Size, time and ETag of an object in a page of a listing."""
    mtime_ns = int(listed["LastModified"].timestamp()) * _SECOND + version(listed["ETag"])
    return Stat(listed["Size"], mtime_ns, listed["ETag"])


def stat(place: Place) -> Stat:
    """Asks for one object; raises NotThere or another ObjectError."""
    if not place.key:
        raise NotThere(f"{place}: this is a bucket; expected s3://BUCKET/KEY")
    try:
        with explained(place):
            head = s3().head_object(Bucket=place.bucket, Key=place.key)
    except NotThere as missing:
        # HEAD's answer, which has no body, is the same where the bucket is missing.
        with explained(place):
            try:
                s3().head_bucket(Bucket=place.bucket)
            except ClientError as error:
                if code_of(error) in ("404", "NoSuchBucket"):
                    raise no_bucket(place) from missing
        raise
    return _stat({**head, "Size": head["ContentLength"]})


def below(place: Place) -> Iterator[tuple[str, Stat]]:
    """Keys that begin with `place.key`, in S3's order (of their UTF-8 bytes)."""
    with explained(place):
        pages = s3().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=place.bucket, Prefix=place.key):
            for one in page.get("Contents", ()):
                yield one["Key"], _stat(one)


def expand(spec: str) -> Iterator[str]:
    """URIs of the objects that `spec` names, in S3's order; nothing where there are none.

    A spec is a prefix (``s3://bucket/prefix/`` or the name of a "directory" without its slash: all
    objects below it), one object, or a glob, of which the constant beginning is listed. As on
    disk, ``*`` ends at a slash, ``**`` does not, and names that start with a dot are left out.
    Keys are taken as they are; the empty objects that stand for directories are not objects here.
    """
    place = parse(spec)
    if (magic := _MAGIC.search(place.key)) is not None:
        pattern = place.key.split("/")
        for key, _ in below(Place(place.bucket, place.key[: magic.start()])):
            if key.endswith("/"):
                continue
            # No glob ends with a slash: a prefix is meant that has such characters.
            literal = place.key.endswith("/") and key.startswith(place.key)
            if (
                key == place.key
                or _fits(key.split("/"), pattern)
                or (literal and not _hidden(key[len(place.key) :]))
            ):
                yield str(Place(place.bucket, key))
        return
    if place.key and not place.key.endswith("/"):
        # The object itself comes before all that begin with its name.
        first, _ = next(below(place), ("", None))
        if first == place.key:
            yield str(place)
        if first in ("", place.key):
            return
    # Not `folder()`: `a//` is another prefix than `a/`.
    slash = "/" if place.key and not place.key.endswith("/") else ""
    top = Place(place.bucket, place.key + slash)
    for key, _ in below(top):
        if not key.endswith("/") and not _hidden(key[len(top.key) :]):
            yield str(Place(top.bucket, key))


def _hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a key, between slashes, fit those of a glob; as on disk ``**`` enters no
    hidden directory, and at the end it stands for all files below."""
    if not pattern or not names:
        return not pattern and not names
    hidden = names[0].startswith(".")
    if pattern[0] != "**":
        return (
            (not hidden or pattern[0].startswith("."))
            and fnmatch.fnmatchcase(names[0], pattern[0])
            and _fits(names[1:], pattern[1:])
        )
    if len(pattern) > 1 and _fits(names, pattern[1:]):
        return True
    last = len(pattern) == 1 and len(names) == 1
    return not hidden and (last or _fits(names[1:], pattern))


def stats(uris: Sequence[str]) -> dict[str, Stat]:
    """URI -> size, time and ETag of the objects that exist; `uris` must be sorted.

    Listed by pages, each of which begins at the next object that is wanted, so that there are never
    more requests than pages of what lies between, and far fewer where little of it is wanted.
    """
    objects: dict[str, Stat] = {}
    if len(uris) < _FEW:
        for uri in uris:
            try:
                objects[uri] = stat(parse(uri))
            except NotThere:
                continue
        return objects
    # Sorted URIs are sorted by bucket, and those of a bucket by key.
    for bucket, of_bucket in itertools.groupby(uris, lambda uri: parse(uri).bucket):
        objects.update(_wanted(bucket, list(of_bucket)))
    return objects


def _wanted(bucket: str, uris: Sequence[str]) -> Iterator[tuple[str, Stat]]:
    """`stats` of one bucket."""
    begin = len(str(Place(bucket)))
    # Rights to list are often given for a prefix alone, such as `runs/*`.
    common = os.path.commonprefix([uris[0][begin:], uris[-1][begin:]])  # noqa: RUF071 - of keys
    prefix = common[: common.rfind("/") + 1]
    at = 0
    while at < len(uris):
        # StartAfter is exclusive; what is shorter by its last character comes before the key.
        after = uris[at][begin:-1]
        while True:
            request: dict[str, Any] = {"StartAfter": after} if after else {}
            with explained(Place(bucket, prefix)):
                page = s3().list_objects_v2(Bucket=bucket, Prefix=prefix, **request)
            for listed in page.get("Contents", ()):
                uri = str(Place(bucket, listed["Key"]))
                while at < len(uris) and uris[at] < uri:
                    at += 1
                if at < len(uris) and uris[at] == uri:
                    yield uri, _stat(listed)
                    at += 1
            if not page.get("IsTruncated"):
                return
            after = page["Contents"][-1]["Key"]
            # Far ahead the next key is found faster than by the pages between.
            if at >= len(uris) or uris[at][begin:-1] > after:
                break


def likely(spec: str) -> str:
    """` (did you mean ...?)` for a `spec` that names nothing, where a like name is beside it."""
    place = parse(spec)
    known = place.key.rstrip("/").split("/")
    for depth in range(len(known)):
        top = "".join(f"{name}/" for name in known[:depth])
        try:
            with explained(place):
                page = s3().list_objects_v2(Bucket=place.bucket, Prefix=top, Delimiter="/")
        except ObjectError:
            return ""  # what cannot be listed has no names to offer
        names = [listed["Prefix"][len(top) : -1] for listed in page.get("CommonPrefixes", ())]
        names += [listed["Key"][len(top) :] for listed in page.get("Contents", ())]
        if known[depth] in names:
            continue
        for close in difflib.get_close_matches(known[depth], names):
            better = str(
                Place(place.bucket, "/".join([*known[:depth], close, *known[depth + 1 :]]))
            )
            better += "/" * place.key.endswith("/")
            if next(expand(better), None) is not None:
                return f" (did you mean {better!r}?)"
        return ""
    return ""
