"""Queries for a search: FASTA files checked and split into parts."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from Bio.SeqIO.FastaIO import SimpleFastaParser

from storewise.errors import InputError, SearchError
from storewise.ssearch.parse.stream import open_input

_CHUNK_BYTES = 1 << 20
_LINE_LETTERS = 60
#: Residues and what the FASTA programs take beside them: gaps, stops, annotation marks.
_NOT_SEQUENCE = re.compile(r"[^A-Za-z*\-.\s]")


class _CountedLines:
    """Lines of decompressed FASTA text, with the number of the last one given out.

    Checks what the parser takes silently: text before the first header is an error here.
    """

    def __init__(self, path: Path, pieces: Iterable[str]) -> None:
        self.number = 0
        self._path = path
        self._lines = _split_lines(pieces)
        self._begun = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if line.startswith(">"):
            self._begun = True
        elif not self._begun and line.strip():
            raise InputError(
                self._path,
                "not a FASTA file",
                line=self.number,
                expected="a header line that starts with '>'",
                found=repr(line.rstrip()[:60]),
            )
        elif bad := _NOT_SEQUENCE.search(line):
            raise InputError(
                self._path,
                "not a sequence line",
                line=self.number,
                expected="letters, '*' or '-'",
                found=repr(bad[0]),
            )
        return line


def _split_lines(pieces: Iterable[str]) -> Iterator[str]:
    # A chromosome may be one line: its pieces are joined once.
    begun: list[str] = []
    for piece in pieces:
        first, *others = piece.split("\n")
        begun.append(first)
        for line in others:
            yield "".join(begun) + "\n"
            begun = [line]
    if rest := "".join(begun):
        yield rest


def _text(path: Path) -> Iterator[str]:
    # Descriptions may hold bytes that are not UTF-8; they must come out as they went in.
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    with open_input(path) as stream:
        while data := stream.read(_CHUNK_BYTES):
            yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def read_fasta(path: Path) -> Iterator[tuple[str, str]]:
    """(header without ``>``, sequence) of each record of a plain, gzip or zstd FASTA file.

    Raises InputError, with the line or the record, where the file is empty or not FASTA, a record
    has no id or no sequence, or two have the same id (their results could not be told apart).
    """
    lines = _CountedLines(path, _text(path))
    seen: dict[str, int] = {}
    for number, (title, sequence) in enumerate(SimpleFastaParser(lines), start=1):
        words = title.split(None, 1)
        if not words or title[0].isspace():
            raise InputError(path, f"record {number} has no id after '>'; name it")
        name = words[0]
        if not sequence:
            raise InputError(
                path, f"record {number} ({name}) has no sequence; remove it or complete the file"
            )
        if name in seen:
            raise InputError(
                path, f"records {seen[name]} and {number} have the same id {name}; rename one"
            )
        seen[name] = number
        yield title, sequence
    if not seen:
        raise InputError(
            path, "no sequence in the file", expected="FASTA records: '>ID description', residues"
        )


def count_parts(path: Path, per_part: int = 1) -> int:
    """How many parts `split_fasta` makes of `path`, whose records it checks."""
    records = sum(1 for _ in read_fasta(path))
    return -(-records // per_part)


def part_path(directory: Path, source: Path, number: int) -> Path:
    """The file of part `number` (from 1) of the FASTA file `source` in `directory`."""
    return directory / f"{_stem(source)}.{number:06}.fa"


def _stem(source: Path) -> str:
    name = source.name
    for suffix in (".gz", ".zst", ".fasta", ".fas", ".fna", ".ffn", ".faa", ".fa"):
        name = name.removesuffix(suffix)
    return name or source.name


def split_fasta(source: Path, directory: Path, per_part: int = 1) -> list[Path]:
    """Splits `source` into files of `per_part` records (the last may have fewer) in `directory`.

    Returns the parts in the order of their records. Headers and residues stay as they are,
    residues in lines of 60. Parts appear whole, and none after an error. Raises InputError as
    `read_fasta`, SearchError where the parts cannot be written.
    """
    if per_part < 1:
        raise ValueError(f"a part needs at least one record, not {per_part}")
    written: list[tuple[Path, Path]] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            for records in _grouped(read_fasta(source), per_part):
                part = part_path(directory, source, len(written) + 1)
                aside = part.with_name(f".{part.name}.partial")
                written.append((aside, part))
                aside.write_bytes(_as_text(records).encode("utf-8", "surrogateescape"))
            for aside, part in written:
                aside.replace(part)
        finally:
            for aside, _ in written:
                aside.unlink(missing_ok=True)
    except OSError as error:
        raise SearchError(
            f"{directory}: the parts of {source} cannot be written: {error.strerror or error}"
        ) from error
    return [part for _, part in written]


def _grouped(records: Iterator[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    group: list[tuple[str, str]] = []
    for record in records:
        group.append(record)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _as_text(records: Iterable[tuple[str, str]]) -> str:
    lines = []
    for title, sequence in records:
        lines.append(f">{title}\n")
        lines += [
            f"{sequence[start : start + _LINE_LETTERS]}\n"
            for start in range(0, len(sequence), _LINE_LETTERS)
        ]
    return "".join(lines)
