"""Documents from outputs of sequence searches: the reader of whole files, whatever their format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, get_args

from storewise.documents import DIGEST_BYTES, Encoding
from storewise.errors import InputError
from storewise.ssearch.formats.registry import HEAD_BYTES, format_of
from storewise.ssearch.formats.table import Table
from storewise.ssearch.parse.batch import Counts, DocumentBatch
from storewise.ssearch.parse.lines import CHUNK
from storewise.ssearch.parse.reader import M10Reader
from storewise.ssearch.parse.stream import ByteReader, Source, damage, open_input, source_name


class DocumentReader:
    """Iterates over the documents of one output, as `DocumentBatch` objects.

    `source` is a path, ``"-"`` or a binary file; plain, gzip or zstd. `input_format` is the text of
    an `InputFormat`; empty: the format that the first bytes show. `digest` is that of the
    decompressed content (`stream.content_digest`); ids have its first 7 bytes. `encoding` "dict"
    gives dicts with 12-byte ids, "bson" BSON bytes with ObjectIds, "arrow" record batches. A batch
    has `alignments_per_batch` alignments, the last batch of a program fewer. Messages call the
    input `name` (default: path).

    Raises InputError, with line and byte offset, for anything that is not a complete output.
    `counts`, `program`, `version` (of the first search), `format` and `fast_alignments` (the number
    of ``-m 10`` read by its fast reader) describe what was yielded so far.
    """

    M10: ClassVar[type[M10Reader]] = M10Reader

    def __init__(
        self,
        source: Source,
        digest: bytes,
        *,
        input_format: str = "",
        encoding: Encoding = "dict",
        study_fields: bool = False,
        alignments_per_batch: int = 1000,
        chunk_bytes: int = CHUNK,
        name: str | None = None,
    ) -> None:
        if len(digest) < DIGEST_BYTES:
            raise ValueError(f"a digest has at least {DIGEST_BYTES} bytes, not {len(digest)}")
        if encoding not in get_args(Encoding):
            raise ValueError(f"encoding {encoding!r} is not one of {', '.join(get_args(Encoding))}")
        if alignments_per_batch < 1 or chunk_bytes < 1:
            raise ValueError("alignments_per_batch and chunk_bytes must be at least 1")
        self._source = source
        self._name = name or source_name(source)
        self._digest = digest
        self._asked = input_format
        self._encoding: Encoding = encoding
        self._study = study_fields
        self._per_batch = alignments_per_batch
        self._chunk = chunk_bytes
        self.format = ""
        self._reader: M10Reader | Table | None = None

    def __iter__(self) -> Iterator[DocumentBatch]:
        for position, program in self._read():
            assert self._reader is not None
            yield DocumentBatch(*self._reader.documents(), bytes_read=position, program=program)

    def count(self) -> Counts:
        """Reads the whole file with every check, without making documents; returns `counts`."""
        for _ in self._read():
            continue
        return self.counts

    @property
    def counts(self) -> Counts:
        """Queries, hits and alignments."""
        return self._reader.counts if self._reader is not None else Counts()

    @property
    def program(self) -> str | None:
        """The program of the first search; None where the output does not name it."""
        return self._reader.program if self._reader is not None else None

    @property
    def version(self) -> str | None:
        """The version of the program."""
        return self._reader.version if self._reader is not None else None

    @property
    def fast_alignments(self) -> int:
        return self._reader.fast_alignments if isinstance(self._reader, M10Reader) else 0

    @property
    def warnings(self) -> list[str]:
        """Warnings about a complete file; final after the iteration."""
        return self._reader.warnings if isinstance(self._reader, M10Reader) else []

    def hits(self) -> dict[str, Any] | None:
        """The hits of the batch as columns of BLAST's table (`ssearch.hits`); None for an output
        that is no table."""
        return self._reader.hits() if isinstance(self._reader, Table) else None

    def _read(self) -> Iterator[tuple[int, str]]:
        self._reader = None
        with open_input(self._source) as stream:
            try:
                head = _head(stream)
                form = format_of(head, self._name, self._asked)
                self.format = form.text
                whole = _Whole(head, stream)
                if form.table is None:
                    self._reader = self.M10(
                        self._name,
                        self._digest,
                        encoding=self._encoding,
                        study_fields=self._study,
                        alignments_per_batch=self._per_batch,
                        chunk_bytes=self._chunk,
                    )
                else:
                    self._reader = Table(
                        form,
                        self._name,
                        self._digest,
                        encoding=self._encoding,
                        study_fields=self._study,
                        rows_per_batch=self._per_batch,
                    )
                yield from self._reader.read(whole)
            except InputError as error:
                raise damage(stream, error) from error


def _head(stream: ByteReader) -> bytes:
    """The first bytes, in which the format shows."""
    head = b""
    with suppress(InputError):  # who reads on meets it again, and knows what came before
        while len(head) < HEAD_BYTES and (data := stream.read(HEAD_BYTES - len(head))):
            head += data
    return head


class _Whole:
    """A stream of which the first bytes were read already."""

    def __init__(self, head: bytes, stream: ByteReader) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._stream.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data
