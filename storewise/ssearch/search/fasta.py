"""Queries for a search: FASTA files checked and split into parts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Self

from Bio.SeqIO.FastaIO import SimpleFastaParser

from storewise.atomic import aside
from storewise.errors import InputError, SearchError
from storewise.ssearch.parse.stream import Raw, open_input

_CHUNK_BYTES = 1 << 20
_LINE_LETTERS = 60
#: Characters that end an id in the FASTA programs.
_BLANK = re.compile("[ \t\1]")
#: Residues and what the FASTA programs take beside them: gaps, stops, annotation marks.
_NOT_SEQUENCE = re.compile(r"[^A-Za-z*\-.\s]")


class _CountedLines:
    """Lines of decompressed FASTA text, with the number of the last one given out.

    Checks what the parser takes silently: text before the first header is an error here.
    """

    def __init__(self, path: Path, lines: Iterator[str]) -> None:
        self.number = 0
        self._path = path
        self._lines = lines
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


def read_fasta(path: Path) -> Iterator[tuple[str, str]]:
    """(header without ``>``, sequence) of each record of a plain, gzip or zstd FASTA file.

    Raises InputError, with the line or the record, where the file is empty or not FASTA, a record
    has no id or no sequence, or two have the same id (their results could not be told apart).
    """
    seen: dict[str, int] = {}
    with (
        open_input(path) as stream,
        # Descriptions may hold bytes that are not UTF-8; they must come out as they went in.
        io.TextIOWrapper(
            io.BufferedReader(Raw(stream), _CHUNK_BYTES), "utf-8", "surrogateescape", "\n"
        ) as text,
    ):
        lines = _CountedLines(path, text)
        for number, (title, sequence) in enumerate(SimpleFastaParser(lines), start=1):
            name = _BLANK.split(title, maxsplit=1)[0]
            if not name:
                raise InputError(path, f"record {number} has no id after '>'; name it")
            if not sequence:
                raise InputError(
                    path,
                    f"record {number} ({name}) has no sequence; remove it or complete the file",
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
    records = read_fasta(source)
    parts: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as written:
            while group := list(islice(records, per_part)):
                parts.append(part_path(directory, source, len(parts) + 1))
                place = written.enter_context(aside(parts[-1]))
                place.write_bytes(_as_text(group).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise SearchError(
            f"{directory}: the parts of {source} cannot be written: {error.strerror or error}"
        ) from error
    return parts


def _as_text(records: Iterable[tuple[str, str]]) -> str:
    lines = []
    for title, sequence in records:
        lines.append(f">{title}\n")
        lines += [
            f"{sequence[start : start + _LINE_LETTERS]}\n"
            for start in range(0, len(sequence), _LINE_LETTERS)
        ]
    return "".join(lines)
