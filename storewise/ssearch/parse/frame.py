"""The frame of an output: the lines around its alignments (marks), and their order.

The reader finds the marks and passes them to a `Frame`, which decides whether an output is complete
and what counts as a query. `grammar` says which line is which mark.

Version 36 with ``-m 10`` closes each query with ``>>><<<``. With ``-m "F10 FILE"`` and with
``-m 9i -m 10`` it writes none, in the whole search: the next query or ``>>>///`` follows.
Versions up to 35 write one ``>>><<<``, after the last query, and no ``>>>///``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from storewise.ssearch.parse.grammar import (
    END_OF_QUERY,
    END_OF_SEARCH,
    FIRST_CLOSED_VERSION,
    FIRST_NUMBERED_VERSION,
    FIRST_VERSION,
    SETS_OF_PEPTIDES,
    QueryLine,
    version_numbers,
)

_INCOMPLETE = "the output is not complete"
#: Reason and expectation in errors about alignments in another format.
NOT_M10_FORMAT = "alignments that are not in the format of -m 10"
M10_OUTPUT = "the output of -m 10 (repeat the search with -m 10)"


class Misplaced(Exception):
    """Raised for a mark that may not come here: what is wrong, what was expected instead, and
    what was found where that is not the line itself."""

    def __init__(self, reason: str, expected: str, found: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expected = expected
        self.found = found


class Place(Enum):
    """Position of the next line within the frame of an output."""

    OUTSIDE = auto()  # before the first search, or after the end mark of one
    PREAMBLE = auto()  # after the version line, before the first query
    QUERY = auto()  # after a query line, before its `>>>ID` line
    ALIGNMENTS = auto()  # after the `>>>ID` line
    BETWEEN = auto()  # the query is closed, the search is not


@dataclass(slots=True)
class _Query:
    """The open query: has its table rows, was it ended by a mark, are there alignments?"""

    scored: bool = False
    bare: bool = False
    headed: bool = False
    aligned: bool = False
    searched: bool = False


class Frame:
    """Follows a file's searches; raises Misplaced for a mark that may not come now."""

    def __init__(self) -> None:
        self.place = Place.OUTSIDE
        self.queries = 0
        self._query = _Query()
        self._old = False
        self._numbered = True
        self._marked: bool | None = None  # whether `>>><<<` closes the queries of this search
        self._number = 0
        self._residues: int | None = 0
        self._with = self._bare = 0
        self._scores_only = 0
        self._miscounted = 0

    @property
    def open_query(self) -> bool:
        """Whether a query has begun and not ended."""
        return self.place in (Place.QUERY, Place.ALIGNMENTS)

    @property
    def accepts_unnumbered_query(self) -> bool:
        """Whether a query line without a number may come (`grammar.UNNUMBERED_QUERY`)."""
        return self.place is Place.PREAMBLE and not self._numbered

    @property
    def last_mark(self) -> bytes:
        """The mark that ends a search."""
        return END_OF_QUERY if self._old else END_OF_SEARCH

    @property
    def wanted(self) -> str:
        """The marks that must still come before the file ends, for an error message."""
        if self._old:
            return "'>>><<<' and the closing lines"
        marks = self.open_query and self._marked is not False
        return "'>>><<<' and '>>>///'" if marks else "'>>>///'"

    @property
    def warnings(self) -> list[str]:
        """Warnings about a complete file."""
        sentences = []
        if self._scores_only:
            sentences.append(
                f"{self._scores_only} of {self.queries} queries have best scores and no "
                "alignments (-d 0 leaves them out): they count with zero hits"
            )
        if self._miscounted:
            sentences.append(
                "the closing lines say '1 query sequences', which is written where the last line "
                "of a @list of libraries cannot be opened (an empty line?); all "
                f"{self._miscounted} queries are there"
            )
        return sentences

    def begin(self, program: str, version: str) -> None:
        """Accept the version line of `program`: a search begins."""
        if self.place is not Place.OUTSIDE:
            raise Misplaced(_INCOMPLETE, "the end of the search before this one")
        if program in SETS_OF_PEPTIDES:
            raise Misplaced(
                f"an output of {program.lower()}, whose queries are sets of peptides: its "
                "alignments are not pairs of sequences",
                "an output of ssearch36, fasta36, tfastx36, lalign36 or a sibling",
            )
        if version_numbers(version) < FIRST_VERSION:
            raise Misplaced(
                f"an output of version {version}, whose -m 10 format is not supported",
                "an output of version 3.3 or later (repeat the search with it)",
            )
        self.place = Place.PREAMBLE
        self._old = version_numbers(version) < FIRST_CLOSED_VERSION
        self._numbered = version_numbers(version) >= FIRST_NUMBERED_VERSION
        self._marked = None
        self._number = self._with = self._bare = 0
        self._residues = 0

    def query(self, line: QueryLine) -> None:
        """Accept a query line."""
        if self.place is Place.OUTSIDE:
            raise Misplaced("unexpected line", "no query after the end of the search")
        if line.number == 1 and self._number:
            raise Misplaced(_INCOMPLETE, "the end of the search before the next one")
        if line.number != self._number + 1:
            raise Misplaced("queries are missing or doubled", f"query number {self._number + 1}")
        if self.open_query:
            if self._marked:
                raise Misplaced("unexpected line", "'>>><<<' before the next query")
            if not self._old:
                self._marked = False
            self._finish()
        self._query = _Query()
        self._number += 1
        self.queries += 1
        if self._residues is not None:
            self._residues = None if line.length is None else self._residues + line.length
        self.place = Place.QUERY

    def library(self, sequences: int) -> None:
        """Accept a query's first line ``N residues in M sequences``, of the library.

        ggsearch36 writes a second one, for the library sequences of a fitting length, which may be
        none.
        """
        if not self._query.searched and not sequences:
            raise Misplaced(
                "the search had no library", "sequences in the library (was its path right?)"
            )
        self._query.searched = True

    def other_line(self) -> None:
        """Accept a line outside the alignments that is neither empty nor a mark."""
        query = self._query
        if self.place is Place.QUERY and query.scored and not query.bare:
            raise Misplaced(
                NOT_M10_FORMAT, f"'>>>ID, N nt vs LIBRARY library' first, as in {M10_OUTPUT}"
            )

    def row(self) -> None:
        """Accept a row of the table of best scores."""
        self._query.scored = True

    def table_ends(self, *, empty_line: bool) -> None:
        """Accept the end of the table: an empty line before alignments, or (with none) a mark."""
        self._query.bare = not empty_line

    def header(self) -> None:
        """Accept the line ``>>>ID, N nt vs LIBRARY library``."""
        if self.place is not Place.QUERY or self._query.bare:
            raise Misplaced("unexpected line", "a query line '  1>>>ID' before its '>>>ID' line")
        self._query.headed = True
        self.place = Place.ALIGNMENTS

    def aligned(self) -> None:
        """Note that the query has alignments."""
        self._query.aligned = True

    def ends(self, mark: bytes) -> bool:
        """Accept ``>>><<<`` or ``>>>///``; returns whether the search ends with it."""
        if mark == END_OF_SEARCH:
            self._end_of_search()
            return True
        if not self.open_query:
            raise Misplaced("unexpected line", "a query before '>>><<<'")
        if self._marked is False:
            raise Misplaced(
                "unexpected line", "'>>><<<' after every query of the search, or after none"
            )
        self._finish()
        self._marked = True
        self.place = Place.OUTSIDE if self._old else Place.BETWEEN
        if self._old:
            self._check_mixture()
        return self._old

    def _end_of_search(self) -> None:
        if self._old or self.place in (Place.OUTSIDE, Place.PREAMBLE):
            raise Misplaced("unexpected line", "a query before '>>>///'")
        if self.open_query:
            if self._marked:
                raise Misplaced("unexpected line", "'>>><<<' before '>>>///'")
            self._finish()
        self._check_mixture()
        self.place = Place.OUTSIDE

    def closing(self, residues: int, queries: int) -> None:
        """Accept the closing line ``N residues in M query sequences``; Misplaced if M is wrong."""
        if queries == self._number:
            return
        if queries == 1 and residues == self._residues:
            self._miscounted += self._number
            return
        expected = f"{queries} queries before this line, as it says"
        raise Misplaced("queries are missing", expected, str(self._number))

    def _finish(self) -> None:
        query = self._query
        if query.aligned:
            self._with += 1
        elif query.scored:
            if not query.headed and not query.bare:
                raise Misplaced(
                    "best scores, but no alignments",
                    f"'>>>ID, N nt vs LIBRARY library' first, as in {M10_OUTPUT}",
                )
            self._scores_only += 1
            self._bare += query.bare

    def _check_mixture(self) -> None:
        if self._with and self._bare:
            raise Misplaced(
                "best scores, but no alignments",
                f"alignments of all {self._number} queries or (with -d 0) of none; "
                f"{self._bare} lack them",
            )
