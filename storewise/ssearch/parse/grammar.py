"""The words of the FASTA package's ``-m 10`` output that both readers share.

Source: outputs of ssearch36, fasta36, tfastx36, fastx36 and lalign36 (36.3.4 to 36.3.8i) and of
fasta34/35, and the format strings in the 36.3.8i programs. ``docs/documents.md`` describes the
format as it is read here.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

#: Numbers of up to 18 digits: they fit 64 bits, and Python converts no longer ones than 4,300.
_N = rb"[0-9]{1,18}"
#: `  1>>>ID DESCRIPTION - 534 nt`; versions up to 34 may lack the length.
_QUERY_START = re.compile(rb" *([0-9]{1,9})>>>")
_QUERY_END = re.compile(
    rb" - (" + _N + rb") (?:nt|aa)(?: \((?:reverse complement|forward-only)\))?"
)
#: Query line of versions up to 3.3 (one query per search): ` ID, 427 aa`, or `FILE: 3002 nt` and a
#: further line ` >ID DESCRIPTION`.
UNNUMBERED_QUERY = re.compile(rb"^ ?(\S.*)[,:] (" + _N + rb") (?:nt|aa)$", re.M)
#: What is before LIB in `>>>ID, 534 nt vs LIB library`.
_BEFORE_LIBRARY = re.compile(rb", " + _N + rb" (?:nt|aa) vs ")
_LIBRARY_END = b" library"
#: The program's name. Versions up to 3.4 start the line with a blank; SSEARCH adds a second line.
PROGRAM_LINE = re.compile(rb" ?([A-Z]{4,10})\b.*")
SECOND_PROGRAM_LINE = b" using the "
VERSION_LINE = re.compile(rb" version +(([0-9]{1,9})(?![0-9])\S*)(.*)")
#: Behind each query line; the first one is that of the library. On the `Library:` line up to
#: version 35.
RESIDUES = re.compile(rb"(?:^|(?<= ))" + _N + rb" residues in +(" + _N + rb") sequences$", re.M)
#: Rows of the histogram of scores, `  52    42    36:=====*==`.
HISTOGRAM = re.compile(rb"(?:[<> ][ 0-9]{3,4}+ ++[0-9]++ ++[0-9]++:[^\n>]*+\n)++")
BEST_SCORES = b"The best scores are:"
END_OF_QUERY = b">>><<<"
END_OF_SEARCH = b">>>///"
NEXT_ALIGNMENT = b">--"
LAST_LINE = b"Function used was"
QUERY_COUNT_LINE = re.compile(
    rb"^(" + _N + rb") residues in (" + _N + rb") query +sequences?", re.M
)
#: Programs whose queries are sets of peptides, aligned piece by piece.
SETS_OF_PEPTIDES = frozenset({"FASTF", "FASTM", "FASTS", "TFASTF", "TFASTM", "TFASTS"})

PARAMETER_LINE = re.compile(rb"; ((?:pg|mp)_[^:]+):(.*)")
#: `; pg_argv:` lacks its newline, so the next key follows on the same line; the last one counts,
#: for the command line itself may hold anything.
ARGV_LINE = re.compile(rb"; (pg_argv):(.*); (pg_name_alg|pg_name):(.*)")
#: Programs up to 35 write these two keys twice: first for the program, then for the algorithm.
#: Version 36 calls the second pair so.
SECOND_NAMES = {"pg_name": "pg_name_alg", "pg_ver": "pg_ver_rel"}

#: A key of an alignment: program prefix, name; as in `; sw_s-w opt: 5625`.
KEY_LINE = re.compile(rb"; ([a-z0-9]+)_([A-Za-z0-9-]+(?: opt)?):(.*)")
SEQUENCE_KEY_LINE = re.compile(rb"; (sq|al)_(\w+):(.*)")
SEQUENCE_HEADER = re.compile(rb">.* \.\.")
SEQUENCE_LINE = re.compile(rb"[A-Za-z*/\\-]+")
CONSENSUS_LINE = re.compile(rb"[^\n;>0-9A-Za-z]+")
CONSENSUS_KEY = b"; al_cons:"
CODE_KEY = re.compile(rb"; al_code\w*:.*")

INTEGER = re.compile(rb"-?\d{1,18}")
NUMBER = re.compile(rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
#: fasta36 prints these for scores of degenerate statistics (seen: `fa_z-score: inf`).
NOT_FINITE = re.compile(rb"[-+]?(?:inf|nan)")
FRAME = re.compile(rb"[fr0-9]")

#: Names (after the prefix) of an alignment's keys and the field that each feeds. `opt` is what
#: fasta36, tfastx and the like call the score that ssearch36 calls `s-w opt`.
ROLES = {
    b"frame": "frame",
    b"s-w opt": "s_w",
    b"opt": "s_w",
    b"z-score": "z",
    b"bits": "bits",
    b"expect": "expect",
    b"score": "score",
    b"ident": "ident",
    b"sim": "sim",
    b"overlap": "overlap",
}

#: The first version that can be read; the first that numbers all queries; the first that closes
#: each query (`>>><<<`) and each search (`>>>///`).
FIRST_VERSION, FIRST_NUMBERED_VERSION, FIRST_CLOSED_VERSION = (3, 3), (3, 4), (36,)


#: Id and rest of a line. Only space and tab end an id: other Unicode blanks may be part of it.
_WORDS = re.compile(r"[ \t]*([^ \t]*)[ \t]*(.*)", re.DOTALL)


def text(data: bytes) -> str:
    """Text of the input; bytes that are not UTF-8 (the programs cut names) become U+FFFD."""
    return data.decode("utf-8", "replace")


@dataclass(slots=True)
class Alignment:
    """One alignment as printed; sequences are the aligned parts, with gaps, without newlines."""

    hit: bytes
    frame: str | None
    s_w: int | None
    z: float | None
    bits: float | None
    expect: float | None
    score: int | None
    ident: float | None
    sim: float | None
    overlap: int
    query_start: int
    query_stop: int
    query_sequence: bytes
    library_start: int
    library_stop: int
    library_sequence: bytes


class Layout(NamedTuple):
    """The format of alignments by one program and version, line by line.

    `keys` are (key as printed, role or None); `query` and `library` the sq/al key lines of the two
    sequences, `sq_type` with its value; `consensus` and `codes` say what follows them.
    """

    keys: tuple[tuple[bytes, str | None], ...]
    query: tuple[bytes, ...]
    library: tuple[bytes, ...]
    consensus: bool
    codes: int


def key_lines(layout: Layout) -> tuple[list[tuple[bytes, str]], ...]:
    """The key lines of an alignment: of its scores, the query and the library sequence.

    Each is the line up to its value and the field that it feeds, or what is checked of a value that
    feeds none: "number", "exact" (the line has no value) or "ignored".
    """
    scores = [(b"; " + key + b":", role or "ignored") for key, role in layout.keys]
    sequences = []
    for which, names in (("query", layout.query), ("library", layout.library)):
        lines = []
        for name in names:
            start = b"; " + name + b":"
            if name.startswith(b"sq_type="):
                lines.append((b"; sq_type: " + name[8:], "exact"))
            elif name in (b"al_start", b"al_stop"):
                lines.append((start, f"{which}_{name[3:].decode()}"))
            else:
                lines.append((start, "number"))
        sequences.append(lines)
    return scores, *sequences


class QueryLine(NamedTuple):
    """Fields of a query line; `length` is None if it has none."""

    number: int
    name: bytes
    length: int | None


def query_line(line: bytes) -> QueryLine | None:
    """`  1>>>ID DESCRIPTION - 534 nt`, or None for any other line."""
    start = _QUERY_START.match(line)
    if start is None:
        return None
    at = line.rfind(b" - ")
    end = _QUERY_END.fullmatch(line, at) if at >= start.end() else None
    if end is None:
        return QueryLine(int(start[1]), line[start.end() :], None)
    return QueryLine(int(start[1]), line[start.end() : at], int(end[1]))


def version_numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a program's version: (36, 3) for 36.3.8i, (3, 3) for 3.3t08."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])


#: Bytes of a file's start that suffice to recognise its format.
HEAD_BYTES = 2000
_BLAST_LIKE = re.compile(rb"T?[A-Z]+ [0-9][^\n]*\n{2,4}Reference: ")


def other_format(head: bytes) -> str | None:
    """Name the format of a file that begins with `head`, if it is another output format of the
    FASTA programs or BLAST (which the reader cannot read); else None."""
    if b"\n#:lav\n" in head:
        return "an output of -m 11 (for lav viewers)"
    if _BLAST_LIKE.match(head):
        return "alignments in BLAST's format (-outfmt 0, or -m BB)"
    return None


def ends_table(line: bytes) -> bool:
    """Whether a line ends the table of best scores.

    A row starts with an id, which may look like any mark, and ends with scores: so only whole lines
    count. With ``-d 0`` no empty line comes before the marks.
    """
    if not line or line in (END_OF_QUERY, END_OF_SEARCH):
        return True
    query = query_line(line)
    return query is not None and query.length is not None


def continues_alignments(following: bytes) -> bool:
    """Whether a line among alignments that starts with `>>` is a hit or names a sequence, as told
    by the line that follows it: an id may start with `>`, and `>>><<<` be a hit of that name."""
    return following.startswith(b"; ") and not following.startswith((b"; pg_", b"; mp_"))


def header_library(line: bytes) -> bytes | None:
    """LIB of `>>>ID, 534 nt vs LIB library`, or None for any other line."""
    if not line.startswith(b">>>") or not line.endswith(_LIBRARY_END):
        return None
    # An id may look like it: the last one counts.
    last = deque(_BEFORE_LIBRARY.finditer(line, 3, len(line) - len(_LIBRARY_END)), maxlen=1)
    return line[last[0].end() : -len(_LIBRARY_END)] if last else None


def library_name(line: bytes) -> bytes | None:
    """The library's name in a line of the preamble; None for lines that name none.

    Such lines are `Library: LIB`, up to version 35 also `Library: LIB   45119 residues in   180
    sequences` and `Query library Q vs LIB library`, up to version 34 also ` vs LIB library`.
    """
    if line.startswith(b"Library: "):
        counts = RESIDUES.search(line)
        return line[9:] if counts is None else line[9 : counts.start()].rstrip(b" ")
    if line.startswith(b" vs ") and line.endswith(_LIBRARY_END):
        return line[4 : -len(_LIBRARY_END)].strip()
    if line.startswith(b"Query library ") and line.endswith(_LIBRARY_END):
        _, separator, library = line[14 : -len(_LIBRARY_END)].rpartition(b" vs ")
        return library if separator else None
    return None


def id_and_description(line: bytes) -> tuple[str, str]:
    """Split the text of a query's or hit's line into id and description; both may be empty."""
    words = _WORDS.fullmatch(text(line))
    assert words is not None
    return words[1], words[2]


class Hit(NamedTuple):
    """Fields of a hit's `>>` line."""

    seqid: str
    gene: str | None
    chromosome: str | None


_GENE = re.compile(r"\bgene:([^ \t]+)")
_GENE_UNIPROT = re.compile(r"\bGN=([^ \t]+)")
_CHROMOSOMES = (
    re.compile(r"\bchromosome:[^ \t:]+:([^ \t:]+):"),
    re.compile(r"\bchromosome:([^ \t:]+)(?![^ \t])"),
)
_CHROMOSOME_TEXT = re.compile(
    r"\bchromosome ([0-9]{1,2}|[XYZWM]|MT|[IVX]{1,5}|[0-9]{1,2}[A-Za-z]{1,2})\b"
)


def _bracketed(key: str, description: str) -> str | None:
    """X of the first `[key=X]`.

    A regular expression would search for the closing bracket again from each of many `[key=`.
    """
    start = description.find(f"[{key}=")
    while start >= 0:
        begin = start + len(key) + 2
        end = description.find("]", begin)
        if end < 0:
            return None
        if end > begin:
            return description[begin:end]
        start = description.find(f"[{key}=", end)
    return None


def _first(patterns: tuple[re.Pattern[str], ...], description: str) -> str | None:
    for pattern in patterns:
        if match := pattern.search(description):
            return match.group(1)
    return None


def read_hit(line: bytes) -> Hit:
    """The library sequence's id, gene and chromosome from a hit line (without its `>>`)."""
    seqid, description = id_and_description(line)
    gene = (
        _first((_GENE,), description)
        or _bracketed("gene", description)
        or _first((_GENE_UNIPROT,), description)
    )
    chromosome = (
        _first(_CHROMOSOMES, description)
        or _bracketed("chromosome", description)
        or _first((_CHROMOSOME_TEXT,), description)
    )
    return Hit(seqid, gene, chromosome)


def translated_side(program: str) -> str | None:
    """The sequence that a program translates: its coordinates count nucleotides only."""
    if program.startswith(("TFASTX", "TFASTY", "TFASTA")):
        return "library"
    if program.startswith(("FASTX", "FASTY")):
        return "query"
    return None
