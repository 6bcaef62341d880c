"""``MANIFEST.json``: what a publication holds, complete when all of it is there.

Until then it says that it is not complete: half a publication.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from storewise.errors import is_plain
from storewise.layout import EXTERNAL, LEASES, LIVE, PUBLISHED, RECORD
from storewise.s3.client import NotThere, ObjectError
from storewise.s3.stream import open_object
from storewise.s3.uri import Place

MANIFEST = "MANIFEST.json"
FORMAT = 1
#: Files that belong to one run on one machine. A run reads in them which processes to end, which
#: directories to remove and which tables to drop: never published, never taken from a publication.
RUN_FILES = frozenset({LEASES, LIVE, EXTERNAL, RECORD, PUBLISHED})


class NoManifest(ObjectError):
    """The file that should be a manifest is not one."""


def plain_name(text: str) -> str:
    """Check a name read from a publication; ValueError if it is not a plain file name."""
    if text.startswith((".", "-")) or not text or "/" in text or not is_plain(text):
        raise ValueError("is not a study's name")
    return text


def _result_path(text: str) -> str:
    """Check that a path stays inside the results and is none of `RUN_FILES`:
    nobody knows who wrote the manifest. ValueError if not.

    Names are compared without case, because some file systems ignore case.
    """
    parts = text.split("/")
    if PurePosixPath(text).is_absolute() or {"", ".", ".."} & set(parts):
        raise ValueError("leads out of the results directory")
    if not is_plain(text) or any(part.startswith("-") for part in parts):
        # A line break would break lists with one name a line; a command reads "-x" as an option.
        raise ValueError(
            f"{text!r} contains a control character, or a name that starts with a dash"
        )
    if parts[0].casefold() in RUN_FILES or any(part.startswith(".") for part in parts):
        raise ValueError(f"{text!r} is not a result: a file of this name controls runs")
    return text


class _Section(BaseModel):
    # What a later version adds is no reason not to read the rest.
    model_config = ConfigDict(extra="ignore", frozen=True)


class Entry(_Section):
    """A file of a publication; `path` is relative to the study's results."""

    path: Annotated[str, AfterValidator(_result_path)]
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    modified_ns: int = Field(ge=-(1 << 63), lt=1 << 63)
    """Its time of modification where it was made, ns since 1970."""
    etag: str
    """S3's name of the object's content: another one means another object."""


def _once_each(files: tuple[Entry, ...]) -> tuple[Entry, ...]:
    if len({entry.path for entry in files}) < len(files):
        raise ValueError("name a path twice")
    return files


class Manifest(_Section):
    """A publication."""

    format: int = FORMAT
    complete: bool
    """False while it is being written or changed."""
    writer: str = ""
    """Whoever is at it, by a random name: two at a time find out."""
    study: Annotated[str, AfterValidator(plain_name)]
    name: str
    run: str
    """When the run began that measured it, UTC."""
    storewise: str
    published: str
    """When this was written, UTC."""
    tags: Mapping[str, str]
    files: Annotated[tuple[Entry, ...], AfterValidator(_once_each)] = Field(repr=False)

    def text(self) -> str:
        """JSON with a line for each file."""
        head = self.model_dump(mode="json", exclude={"files"})
        lines = ",\n".join(json.dumps(entry.model_dump(mode="json")) for entry in self.files)
        start = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
        return f'{start},\n "files": [\n{lines}\n ]\n}}\n'


def read_manifest(folder: Place) -> Manifest:
    """The manifest of a folder; NotThere where it has none, ObjectError where it is unreadable."""
    name = str(folder.below(MANIFEST))
    with open_object(name) as stream:
        return parse_manifest(stream.read(), name)


def parse_manifest(content: bytes, where: str) -> Manifest:
    """A manifest from its text. Errors name `where`: NoManifest where it is none, ObjectError where
    it is of another version's format."""
    try:
        data: Any = json.loads(content)
        version = data.get("format")
        if version != FORMAT:
            raise ObjectError(
                f"{where}: of format {version!r}, this version of Storewise reads {FORMAT}; take "
                "the version that published it"
            )
        return Manifest.model_validate(data)
    except (ValueError, AttributeError, RecursionError) as error:
        reason: object = error
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise NoManifest(
            f"{where}: not a manifest of a publication ({reason}); publish the results again"
        ) from error


def manifest_or_none(folder: Place) -> Manifest | None:
    """The manifest of a folder, None where it has none, or something else in its place."""
    try:
        return read_manifest(folder)
    except (NotThere, NoManifest):
        return None
