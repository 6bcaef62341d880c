"""A first look at a directory of outputs: how much there is, and what can be asked of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from storewise.documents import DIGEST_BYTES
from storewise.errors import InputError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.parse import remote
from storewise.ssearch.reader import DocumentReader

#: Seconds for which files are read.
SECONDS = 10.0


@dataclass(slots=True)
class Survey:
    """Counts of a survey. `bytes` are those on disk of all files; `documents` those of the `read`
    files that were read to their end; `incomplete` has a reason for each file that is not whole;
    `formats` has the first file of each format."""

    files: int = 0
    bytes: int = 0
    read: int = 0
    documents: int = 0
    incomplete: list[str] = field(default_factory=list)
    with_genes: int = 0
    with_scores: int = 0
    looked: int = 0
    formats: dict[str, str] = field(default_factory=dict)

    @property
    def genes(self) -> bool:
        """Whether hits name genes, in most of the files."""
        return 2 * self.with_genes > self.looked

    @property
    def scores(self) -> bool:
        """Whether hits have e-values, in most of the files; so where no file has any hit."""
        return 2 * self.with_scores > self.looked or not self.looked


def survey(
    directory: Path | str,
    progress: Callable[[int, int | None], None] = lambda *_: None,
    *,
    input_format: str = "",
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Survey:
    """Read the outputs below a directory, or a prefix on S3, for so long; small files first."""
    paths = list_inputs([directory])
    objects = remote.stats(paths)
    sizes = {path: objects[path].size if is_remote(path) else _size(path) for path in paths}
    found = Survey(len(paths), sum(sizes.values()))
    until = clock() + seconds
    for number, path in enumerate(sorted(paths, key=lambda path: sizes[path]), 1):
        if not _read(path, input_format, found, lambda: clock() > until):
            break
        progress(number, len(paths))
    return found


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # whoever reads it says what is wrong


def _read(path: str, input_format: str, found: Survey, over: Callable[[], bool]) -> bool:
    """Read one file; returns whether there is time for another."""
    reader = DocumentReader(path, bytes(DIGEST_BYTES), input_format=input_format)
    genes = scores = hits = False
    try:
        for batch in reader:
            hits = hits or bool(batch.align)
            genes = genes or any(hit["gene"] is not None for hit in batch.align)
            scores = scores or any(hit["e"] is not None for hit in batch.align)
            if over():
                return False
    except InputError as error:
        found.incomplete.append(str(error))
        return not over()
    finally:
        if reader.format:
            found.formats.setdefault(reader.format, path)
        found.looked += hits
        found.with_genes += genes
        found.with_scores += scores
    found.read += 1
    found.documents += reader.counts.documents
    return not over()
