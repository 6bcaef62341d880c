"""The place on S3 and the name of a publication of a study's results: key `publish`.

It says nothing of how a trial runs, so changing it makes no stored result older.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import Field, model_validator

from storewise import __version__
from storewise.errors import StorewiseError
from storewise.s3.uri import Place, parse
from storewise.study.section import Section

#: Tags that each object of a publication has; those of a user come beside them.
OWN_TAGS = ("study", "name", "run", "storewise")
#: S3's limits (Amazon S3 User Guide, "Categorizing your objects using tags").
MOST_TAGS = 10
_KEY, _VALUE = 128, 256
_NOT_IN_TAGS = re.compile(r"[^\w \-+=.:/@]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: Where a study without the key `publish` is to be published.
NOT_SAID = (
    "study {study} does not say where its results go: give it the key `publish: "
    "s3://BUCKET/PREFIX`, or use `storewise publish {study} s3://BUCKET/PREFIX`"
)


class Publish(Section):
    """The key `publish` of a study."""

    to: str
    """``s3://BUCKET/PREFIX``, below which each publication has its folder."""
    name: str = ""
    """The user's own, at the end of the folder's name."""
    tags: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _usable(self) -> Publish:
        try:
            parse(self.to)
        except StorewiseError as error:
            raise ValueError(str(error)) from error
        if self.name and not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: {self.name!r}: letters, digits, dots, dashes and underscores only, at most "
                "64, of which the first is a letter or digit"
            )
        for key, value in self.tags.items():
            _check_tag(key, value)
        if len(self.tags) > MOST_TAGS - len(OWN_TAGS):
            raise ValueError(
                f"tags: {len(self.tags)} of them; S3 takes {MOST_TAGS} for an object, of which "
                f"{len(OWN_TAGS)} are Storewise's ({', '.join(OWN_TAGS)})"
            )
        return self


def as_publish(value: Any) -> Any:
    """A plain text is where results go."""
    return {"to": value} if isinstance(value, str) else value


def _check_tag(key: str, value: str) -> None:
    if key in OWN_TAGS or key.lower().startswith("aws:"):
        raise ValueError(f"tags: {key!r} is not yours to set; take another key")
    if not 0 < len(key) <= _KEY or len(value) > _VALUE:
        raise ValueError(
            f"tags: {key!r}: a key has 1 to {_KEY} characters, a value at most {_VALUE}"
        )
    for text in (key, value):
        if bad := _NOT_IN_TAGS.search(text):
            raise ValueError(
                f"tags: {text!r}: {bad[0]!r} is not taken by S3, only letters, digits, spaces and "
                "_ - + = . : / @"
            )


def as_time(seconds: float) -> str:
    """A time in UTC, to the second: ``2026-11-22T08:17:21Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def folder_of(publish: Publish, study: str, started: float) -> Place:
    """The folder for the results of the run that began at `started` (Unix time).

    Its name is time, study and the name that the user gave, so that folders sort by time.
    """
    time = datetime.fromtimestamp(started, UTC).strftime("%Y%m%dT%H%M%SZ")
    name = "-".join(part for part in (time, study, publish.name) if part)
    return parse(publish.to).below(name).folder()


def tags_of(publish: Publish, study: str, started: float) -> Mapping[str, str]:
    """The tags of each object of a publication; without a name no tag `name`."""
    tags = {
        "study": _NOT_IN_TAGS.sub("_", study)[:_VALUE],
        "name": publish.name,
        "run": as_time(started),
        "storewise": __version__,
    }
    return {key: value for key, value in tags.items() if value} | publish.tags
