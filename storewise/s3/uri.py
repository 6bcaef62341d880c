"""Names of objects, ``s3://BUCKET/KEY``, and what is known of one; nothing here needs boto3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from storewise.errors import StorewiseError

SCHEME = "s3://"
#: Amazon S3 User Guide, "General purpose bucket naming rules".
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def is_remote(name: object) -> bool:
    """Whether a path names an object, not a file."""
    return isinstance(name, str) and name.startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket and a key, or the beginning of keys."""

    bucket: str
    key: str = ""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    def folder(self) -> Place:
        """The place as the beginning of what lies below it: empty, or with a slash at its end."""
        return Place(self.bucket, f"{self.key.rstrip('/')}/" if self.key.strip("/") else "")

    def below(self, name: str) -> Place:
        """The place `name` below this one."""
        return Place(self.bucket, self.folder().key + name)


def parse(name: str) -> Place:
    """The place that a URI names; StorewiseError where it is none.

    Keys are taken as they are: on S3 ``a//b`` and ``a/b`` are two objects.
    """
    bucket, _, key = name.removeprefix(SCHEME).partition("/")
    if not name.startswith(SCHEME) or not _BUCKET.fullmatch(bucket):
        raise StorewiseError(f"{name!r} names nothing on S3; expected s3://BUCKET/PREFIX")
    return Place(bucket, key)


@dataclass(frozen=True, slots=True)
class Stat:
    """Size, ETag and time of an object.

    `mtime_ns` is its time of last change, which S3 gives in whole seconds; below the second stands
    `listing.version` of its ETag, so that an object that was replaced within a second, by one of
    the same size, has another time too.
    """

    size: int
    mtime_ns: int
    etag: str


class Wanted(Protocol):
    """A file or object as it was listed, such as a row of a manifest."""

    @property
    def path(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
