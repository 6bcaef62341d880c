"""The words of the FASTA package's ``-m 10`` output that both readers share.

Source: outputs of ssearch36, fasta36, tfastx36, fastx36 and lalign36 (36.3.4 to 36.3.8i) and of
fasta34/35, and the format strings in the 36.3.8i programs. ``docs/documents.md`` describes the
format as it is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

#: `  1>>>ID DESCRIPTION - 534 nt`; versions up to 34 may lack the length.
QUERY_LINE = re.compile(rb" *(\d+)>>>(.*?)(?: - (\d+) (?:nt|aa)\b.*)?")
#: `>>>ID, 534 nt vs LIB library`
HEADER_LINE = re.compile(rb">>>(.*), (\d+) (?:nt|aa) vs (.*) library")
PROGRAM_LINE = re.compile(rb"([A-Z]{4,10})\b.*")
VERSION_LINE = re.compile(rb" version +(\S+)(.*)")
#: Versions up to 35: `Query library Q vs LIB library`, or `Library: LIB   45119 residues in ...`.
OLD_LIBRARY_LINE = re.compile(rb"Query library .* vs (.*) library")
LIBRARY_LINE = re.compile(rb"Library: (.*?)(?: +\d+ residues in +\d+ sequences)?")
NO_LIBRARY_LINE = re.compile(rb"(?:Library: .*)? *0 residues in +0 sequences")
BEST_SCORES = b"The best scores are:"
END_OF_QUERY = b">>><<<"
END_OF_SEARCH = b">>>///"
NEXT_ALIGNMENT = b">--"
LAST_LINE = b"Function used was"
QUERY_COUNT_LINE = re.compile(rb"\d+ residues in (\d+) query +sequences?")

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
INTEGER_ROLES = ("s_w", "score", "overlap")
FLOAT_ROLES = ("z", "bits", "expect", "ident", "sim")

#: The first version whose outputs close each query and end with `>>>///`.
FIRST_CLOSED_VERSION = 36


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
    """What may differ between the alignments of two programs or versions, line by line.

    `keys` are (key as printed, role or None); `query` and `library` the sq/al key lines of the two
    sequences, `sq_type` with its value; `consensus` and `codes` say what follows them.
    """

    keys: tuple[tuple[bytes, str | None], ...]
    query: tuple[bytes, ...]
    library: tuple[bytes, ...]
    consensus: bool
    codes: int


class Hit(NamedTuple):
    """What a hit's `>>` line says."""

    seqid: str
    gene: str | None
    chromosome: str | None


_GENES = (
    re.compile(r"\bgene:(\S+)"),
    re.compile(r"\[gene=([^\]]+)\]"),
    re.compile(r"\bGN=(\S+)"),
)
_CHROMOSOMES = (
    re.compile(r"\bchromosome:[^\s:]+:([^\s:]+):"),
    re.compile(r"\bchromosome:([^\s:]+)(?!\S)"),
    re.compile(r"\[chromosome=([^\]]+)\]"),
    re.compile(r"\bchromosome ([0-9]{1,2}|[XYZWM]|MT|[IVX]{1,5}|[0-9]{1,2}[A-Za-z]{1,2})\b"),
)


def _first(patterns: tuple[re.Pattern[str], ...], description: str) -> str | None:
    for pattern in patterns:
        if match := pattern.search(description):
            return match.group(1)
    return None


def read_hit(line: bytes) -> Hit:
    """The library sequence's id, gene and chromosome from a hit line (without its `>>`)."""
    words = text(line).split(None, 1)
    if not words:
        return Hit("", None, None)
    description = words[1] if len(words) > 1 else ""
    return Hit(words[0], _first(_GENES, description), _first(_CHROMOSOMES, description))


def translated_side(program: str) -> str | None:
    """Which sequence a program translates: its coordinates count nucleotides, its letters not."""
    if program.startswith(("TFASTX", "TFASTY", "TFASTA")):
        return "library"
    if program.startswith(("FASTX", "FASTY")):
        return "query"
    return None
