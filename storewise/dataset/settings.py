"""The layout of a data set: chosen when it is made, and kept for every update."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any, Literal, get_args

from storewise import __version__
from storewise.errors import StorewiseError

By = Literal["query", "library", "hash"]
Sort = Literal["query", "library", "id"]

#: Of the directory's layout; another one is not read.
FORMAT = 1
MAX_PARTITIONS = 256
#: More partitions than these are only made where they are asked for.
USUAL_PARTITIONS = 64
TARGET_BYTES = 512_000_000
#: Bytes of the largest kind, compressed, for a byte of text; measured on the
#: sample (0.026) and on 2 GB of DNA against three libraries (0.025).
SHARE_OF_TEXT = 0.03
#: Bytes of text for a byte of a compressed input, about.
EXPANSION = 5
#: The columns that a file is sorted by.
ORDERS: Mapping[Sort, Sequence[str]] = {
    "id": ("_id",),
    "query": ("q", "_id"),
    "library": ("lib", "q", "_id"),
}
#: How the files of a partition are sorted where nothing is said.
_USUAL_ORDER: Mapping[By, Sort] = {"hash": "id", "query": "query", "library": "library"}
_COMPRESSED = (".gz", ".zst", ".zstd")
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmg]i?b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Settings:
    """`by` says which documents share a partition, `partitions` how many there are.

    `sort` says how files are sorted: None for what fits to `by`, and never None afterwards. A file
    ends when it has `target_bytes`. Row groups have `row_group` rows; `level` is zstd's.
    `input_format` is the text of an `InputFormat`, empty where each input shows its own.
    """

    by: By = "hash"
    partitions: int = 1
    target_bytes: int = TARGET_BYTES
    study_fields: bool = False
    row_group: int = 32768
    level: int = 1
    sort: Sort | None = None
    input_format: str = ""

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise StorewiseError(f"by: {self.by!r} is none of {', '.join(get_args(By))}")
        if self.sort is None:
            object.__setattr__(self, "sort", _USUAL_ORDER[self.by])
        if self.sort not in get_args(Sort):
            raise StorewiseError(f"sort: {self.sort!r} is none of {', '.join(get_args(Sort))}")
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            raise StorewiseError(
                f"partitions: expected 1 to {MAX_PARTITIONS}, found {self.partitions}"
            )
        if self.study_fields and not self.by_ids:
            what = f"by: {self.by}" if self.by != "hash" else f"sort: {self.sort}"
            raise StorewiseError(
                f"{what} needs the names of queries and libraries, which are no fields of "
                "the published study; leave --study-fields out, or use --by hash"
            )
        if self.target_bytes < 1 or self.row_group < 1:
            raise StorewiseError("target size and rows of a row group must be at least 1")

    @property
    def by_ids(self) -> bool:
        """Whether ids alone determine the partition and place of a document."""
        return self.by == "hash" and self.sort == "id"

    @property
    def order(self) -> Sequence[str]:
        """The columns that files are sorted by."""
        return ORDERS[self.sort or "id"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Settings given by a caller; None: not given."""

    by: By | None = None
    partitions: int | None = None
    target_bytes: int | None = None
    study_fields: bool | None = None
    row_group: int | None = None
    level: int | None = None
    sort: Sort | None = None
    input_format: str | None = None

    def said(self) -> dict[str, Any]:
        """The values that are given, without None."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def new(self, text_bytes: int) -> Settings:
        """The settings of a new data set for inputs with so many bytes of text."""
        settings = Settings(**self.said())
        if self.partitions is not None:
            return settings
        wanted = -(-int(text_bytes * SHARE_OF_TEXT) // settings.target_bytes)
        return replace(settings, partitions=min(max(1, wanted), USUAL_PARTITIONS))

    def agree(self, settings: Settings, where: str) -> None:
        """Raises StorewiseError if a given setting differs from the data set's."""
        for key, value in self.said().items():
            if (there := getattr(settings, key)) != value:
                raise StorewiseError(
                    f"{where}: was made with {key} = {there}, and {value} is asked for; leave the "
                    "option out, or make a new data set"
                )


def text_bytes(path: str, size: int) -> int:
    """The approximate bytes of text of a stored file."""
    return size * EXPANSION if path.endswith(_COMPRESSED) else size


def parse_size(text: str) -> int:
    """Bytes of a size such as 512MB, 1.5 GB or 64MiB; StorewiseError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (size := int(float(match[1]) * _UNITS[match[2].lower()])):
        raise StorewiseError(f"{text!r} is no size; expected a number and a unit, such as 512MB")
    return size


def dump(settings: Settings) -> str:
    """The text of ``dataset.json``."""
    made_by = {"storewise": __version__, "pyarrow": version("pyarrow")}
    record = {"format": FORMAT, **asdict(settings), "made_by": made_by}
    return json.dumps(record, indent=1) + "\n"


def parse(text: bytes, name: str) -> Settings:
    """The settings in a ``dataset.json``; StorewiseError where it is none of this version."""
    try:
        record = json.loads(text)
        form = record.pop("format")
        record.pop("made_by", None)
    except (ValueError, AttributeError, KeyError) as error:
        raise StorewiseError(
            f"{name}: is no description of a data set; expected what `storewise convert` writes"
        ) from error
    if form != FORMAT:
        raise StorewiseError(
            f"{name}: has format {form}, this version knows {FORMAT}; make the data set again, or "
            "use the version that made it"
        )
    try:
        return Settings(**record)
    except TypeError as error:
        raise StorewiseError(f"{name}: {error}") from error
