"""Hits as one table, a row for each alignment: BLAST's columns, then a few more.

The first twelve columns have the names, order and meaning of ``blastn -outfmt 6``. SSEARCH's own
``-m 8`` has the same columns, but counts otherwise: its length and identity leave gaps out, its gap
openings are columns with a gap (or with N, in nucleotides), and a hit of the minus strand turns the
query round, not the subject. A test compares both, value by value.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.documents import DIGEST_BYTES, split_id
from storewise.errors import StorewiseError
from storewise.ssearch.parse.batch import DocumentBatch
from storewise.ssearch.parse.grammar import translated_side
from storewise.ssearch.parse.stream import STDIN, Source
from storewise.ssearch.reader import DocumentReader

#: Of ``-outfmt 6``.
BLAST = pa.schema(
    [
        *((name, pa.string()) for name in ("qseqid", "sseqid")),
        ("pident", pa.float64()),
        *((name, pa.int64()) for name in ("length", "mismatch", "gapopen")),
        *((name, pa.int64()) for name in ("qstart", "qend", "sstart", "send")),
        *((name, pa.float64()) for name in ("evalue", "bitscore")),
    ]
)
#: The first three have BLAST's names, too; the last two are of the hit's description.
COLUMNS = pa.schema(
    [
        *BLAST,
        ("sstrand", pa.string()),
        ("score", pa.int64()),
        ("gaps", pa.int64()),
        ("gene", pa.string()),
        ("chromosome", pa.string()),
    ]
)
FORMS = ("parquet", "tsv", "csv")
_BATCH = 10_000
#: Gaps, and the frame shifts of translated alignments.
_GAPS = np.frombuffer(rb"-/\\", np.uint8)


def form_of(output: Path) -> str:
    """The form that a file's name asks for; standard output (``-``) has TSV."""
    form = "tsv" if str(output) == STDIN else output.suffix.removeprefix(".").lower()
    if form not in FORMS:
        names = ", ".join(f"hits.{suffix}" for suffix in FORMS)
        raise StorewiseError(f"{output}: the table of hits is a file such as {names}")
    return form


def write_hits(source: Source, form: str, place: Path, *, input_format: str = "") -> list[str]:
    """The hits of one output as a part of a table (`join`); returns warnings about the output.

    Raises InputError for a bad output.
    """
    reader = DocumentReader(
        source, bytes(DIGEST_BYTES), input_format=input_format, alignments_per_batch=_BATCH
    )
    if form == "parquet":
        with pq.ParquetWriter(place, COLUMNS, compression="zstd") as writer:
            for hits in _tables(reader):
                writer.write_table(hits)
        return reader.warnings
    with place.open("w", encoding="utf-8", newline="") as file:
        for hits in _tables(reader):
            rows = zip(*(column.to_pylist() for column in hits.columns), strict=True)
            if form == "csv":
                csv.writer(file, lineterminator="\n").writerows(rows)
            else:
                file.writelines("\t".join(map(_word, row[: len(BLAST)])) + "\n" for row in rows)
    return reader.warnings


def _tables(reader: DocumentReader) -> Iterator[Any]:
    for batch in reader:
        columns = reader.hits()
        if columns is None:
            yield pa.table(_table_columns(batch), schema=COLUMNS)
        elif columns:
            yield pa.table(columns).select(COLUMNS.names).cast(COLUMNS)


def _word(value: Any) -> str:
    """A value for tools that cut lines at blanks, so that none is empty."""
    if value is None:
        return "NaN"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _table_columns(batch: DocumentBatch) -> dict[str, Sequence[Any]]:
    """The table's columns (`COLUMNS`), one row for each alignment of a batch."""
    rna, gs, align = batch.rna, batch.gs, batch.align
    identical, gaps, openings = _count_columns([row["s"] for row in rna], [row["s"] for row in gs])
    length = [len(row["s"]) for row in rna]
    # A query that is itself translated has the strand; else it is the subject's, as BLAST has it.
    turned = translated_side(batch.program) != "query"
    query = [(row["b"], row["e"]) for row in rna]
    subject = [(row["b"], row["e"]) for row in gs]
    for i, (start, stop) in enumerate(query):
        if turned and start > stop:
            query[i], subject[i] = (stop, start), subject[i][::-1]
    minus = [a > b or c > d for (a, b), (c, d) in zip(query, subject, strict=True)]
    return {
        # A query without an id gets BLAST's name for it: its number in the file.
        "qseqid": [row["q"] or f"Query_{split_id(row['ti'])[2] + 1}" for row in align],
        "sseqid": [row["seqid"] or "unnamed" for row in gs],
        "pident": [round(100 * i / n, 3) for i, n in zip(identical, length, strict=True)],
        "length": length,
        "mismatch": [n - i - g for n, i, g in zip(length, identical, gaps, strict=True)],
        "gapopen": openings,
        "qstart": [start for start, _ in query],
        "qend": [stop for _, stop in query],
        "sstart": [start for start, _ in subject],
        "send": [stop for _, stop in subject],
        "evalue": [row["e"] for row in align],
        "bitscore": [row["b"] for row in align],
        "sstrand": ["minus" if is_minus else "plus" for is_minus in minus],
        "score": [row["s_w"] if row["p"] is None else row["p"] for row in align],
        "gaps": gaps,
        "gene": [row["gene"] for row in align],
        "chromosome": [row["chr"] for row in align],
    }


def _count_columns(
    queries: Sequence[str], subjects: Sequence[str]
) -> tuple[list[int], list[int], list[int]]:
    """Count identical columns (U equals T), columns with a gap, and gap openings of each alignment.

    `queries` and `subjects` are the aligned sequences."""
    if not queries:
        return [], [], []
    sizes = np.fromiter(map(len, queries), np.int64, len(queries))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rows = [
        np.frombuffer("".join(sequences).upper().replace("U", "T").encode(), np.uint8)
        for sequences in (queries, subjects)
    ]
    gap = [np.isin(row, _GAPS) for row in rows]
    either = gap[0] | gap[1]
    same = np.add.reduceat((rows[0] == rows[1]) & ~either, starts, dtype=np.int64)
    # A frame shift stands in both rows.
    begins = _gap_starts(gap[0], starts) | _gap_starts(gap[1] & ~gap[0], starts)
    openings = np.add.reduceat(begins, starts, dtype=np.int64)
    gaps = np.add.reduceat(either, starts, dtype=np.int64)
    return same.tolist(), gaps.tolist(), openings.tolist()


def _gap_starts(gap: np.ndarray[Any, np.dtype[np.bool_]], starts: Any) -> Any:
    """Mark the columns in which a gap begins."""
    before = np.concatenate([[False], gap[:-1]])
    before[starts] = False
    return gap & ~before


def join(parts: Iterable[Path], form: str, file: BinaryIO) -> None:
    """The parts of many outputs (`write_hits`) as one table, in their order."""
    if form == "parquet":
        with pq.ParquetWriter(file, COLUMNS, compression="zstd") as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    writer.write_batch(batch)
        return
    if form == "csv":
        file.write((",".join(COLUMNS.names) + "\n").encode())
    for part in parts:
        with part.open("rb") as lines:
            shutil.copyfileobj(lines, file)
