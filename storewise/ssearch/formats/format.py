"""The format of an input: ``-m 10``, or a table; and the contract of a format of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from storewise.ssearch.formats.names import STD

#: Outputs of ``-m 10``, which are no tables.
M10 = "m10"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format of tables, told by its name in studies and options."""

    name: str
    title: str
    advice: str
    """How to write it, for messages."""
    first: re.Pattern[bytes] | None = None
    """The first bytes that are of this format for certain; None: only the user can say so."""
    head: re.Pattern[bytes] | None = None
    """A first line of column names, which is no row."""
    query: bytes = b""
    """How the comment line begins that names the next query; empty where no comment does."""
    comments: tuple[re.Pattern[bytes], ...] = ()
    """Patterns of other whole comment lines; the first that matches counts. Their groups:
    `program`, `version`, `argv` and `database` of the search; `fields`, the names of columns
    with commas; `found`, hits of the query; `processed`, queries, at the end."""
    passed: tuple[bytes, ...] | None = ()
    """Whole lines that are no rows, beside comments; None where it has no comments."""
    seldom: tuple[bytes, ...] = ()
    """Whole lines that are no rows and so rare that they are looked for only where a row does not
    fit."""
    columns: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: {len(STD): STD})
    """Names by the number of columns, where the file does not name them."""
    named: bool = False
    """Whether the comments' list of fields names the columns of rows."""
    ends: bool = False
    """Whether the last comment tells the number of queries: then a cut is visible."""
    counts: Literal["", "rows", "sequences"] = ""
    """What the number of hits of a query counts: `rows` exactly, or sequences (at least a row)."""
    more_counted: frozenset[str] = frozenset()
    """Programs that count hits, too, which they leave out."""
    identity: Literal["columns", "residues", "fraction"] = "columns"
    """What the identity is relative to: percent of the alignment's columns, percent of its length
    without gaps (FASTA), or a fraction of its columns (MMseqs2)."""
    own_columns: bool = False
    """Whether its program writes lists of one's own that the file does not name."""
    turns_query: bool = False
    """Whether a hit of the minus strand turns the query round, where BLAST turns the subject."""
    ungapped: bool = False
    """Whether ``qseq`` and ``sseq`` have no gaps (DIAMOND)."""


@dataclass(frozen=True, slots=True)
class InputFormat:
    """The format of an input: a table's, or None for ``-m 10``; `names` are the columns that the
    user named."""

    table: TableFormat | None = None
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The format's name, followed by the user's columns: ``blast6 qseqid sseqid pident``."""
        return " ".join([self.table.name if self.table is not None else M10, *self.names])

    @property
    def ends(self) -> bool:
        """Whether the format marks the end of a file, so that a cut is seen."""
        return self.table is None or self.table.ends
