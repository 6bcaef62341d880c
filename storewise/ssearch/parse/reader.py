"""Documents from outputs of ``-m 10``: the reader of whole files.

The frame of a file (preambles, queries, ends) is read line by line here; its alignments, which are
all but a fraction of the bytes, by `fast` or `reference`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from storewise.documents import Document, Encoding, Kind, make_id
from storewise.ssearch.parse import grammar
from storewise.ssearch.parse.batch import Counts, Query, no_gc
from storewise.ssearch.parse.columns import Columns, RepeatedStatistics
from storewise.ssearch.parse.documents import dicts_of, task_document, to_bson
from storewise.ssearch.parse.fast import FastReader
from storewise.ssearch.parse.frame import M10_OUTPUT, NOT_M10_FORMAT, Frame, Misplaced, Place
from storewise.ssearch.parse.grammar import text
from storewise.ssearch.parse.lines import Lines, shown
from storewise.ssearch.parse.packed import bson_of
from storewise.ssearch.parse.reference import SearchKeys, read_alignment
from storewise.ssearch.parse.stream import ByteReader

#: The first lines of a search; one that names no version in them is no output of these programs.
_PREAMBLE_LINES = 40
#: Lines of a query's preamble that its `>>>` block repeats, where there is one.
_SHOWN_PARAMETERS = ((b"Algorithm: ", "mp_Algorithm"), (b"Parameters: ", "mp_Parameters"))
_NOT_SSEARCH = "this is not an output of ssearch36, fasta36, tfastx36, lalign36 or a sibling"


class M10Reader:
    """Reads one output of ``-m 10`` for `storewise.ssearch.reader.DocumentReader`.

    `counts`, `program`, `version` (of the first search) and `fast_alignments` (the number read by
    the fast reader) describe what was read so far.
    """

    def __init__(
        self,
        name: str,
        digest: bytes,
        *,
        encoding: Encoding,
        study_fields: bool,
        alignments_per_batch: int,
        chunk_bytes: int,
    ) -> None:
        self._name = name
        self._digest = digest
        self._encoding = encoding
        self._study = study_fields
        self._chunk = chunk_bytes
        self._fast = FastReader()
        self.counts = Counts()
        self.program: str | None = None
        self.version: str | None = None
        self.fast_alignments = 0
        self._tasks: list[Document] = []
        self._tasks_made = 0
        self._columns = Columns(alignments_per_batch, 0)
        self._frame = Frame()
        self._repeated = RepeatedStatistics()
        # Of the search that is being read:
        self._current_program = ""
        self._preamble: dict[str, str] = {}
        self._library = ""
        self._keys = SearchKeys()

    def read(self, stream: ByteReader) -> Iterator[tuple[int, str]]:
        """Reads batch after batch; yields the position in the file and the program of each, whose
        documents `documents` then gives. All alignments of a batch are from one program."""
        lines = Lines(stream, self._name, self._chunk)
        yield from self._searches(lines)
        yield from self._rest(lines, self._current_program)

    def _searches(self, lines: Lines) -> Iterator[tuple[int, str]]:
        """Reads all searches; a misplaced mark is always the current line."""
        try:
            while True:
                before = self._current_program
                if not self._begin_search(lines):
                    return
                if self._current_program != before:
                    yield from self._rest(lines, before)
                yield from self._search(lines)
                self._closing(lines)
        except Misplaced as wrong:
            found = wrong.found or shown(lines.line)
            raise lines.error(wrong.reason, expected=wrong.expected, found=found) from None

    def _batch(self, lines: Lines, program: str) -> Iterator[tuple[int, str]]:
        """Yields what has been read since the last batch as a batch, then makes room."""
        yield lines.offset, program
        self._tasks = []
        self._columns = self._columns.next(self.counts.alignments)

    def _rest(self, lines: Lines, program: str) -> Iterator[tuple[int, str]]:
        """Yields the last batch of a program, if anything has been read since the one before."""
        if self._tasks or self._columns.rows:
            yield from self._batch(lines, program)

    @property
    def warnings(self) -> list[str]:
        """Warnings about a complete file; final after the iteration."""
        repeated = (
            f"{self._repeated.count} further alignments of hits (>--) repeat the z-score, bits and "
            "e-value of the hit's first one, which are not their own: so do versions before June "
            "2021, and at times fasta36 since"
        )
        return [*self._frame.warnings, *([repeated] if self._repeated.count else [])]

    # -- the frame of a search ---------------------------------------------------------------

    def _begin_search(self, lines: Lines) -> bool:
        """Reads up to the version line; False at the end of the file after a search."""
        first = self.program is None or self.counts.queries == 0
        while lines.line is not None and not lines.line.strip():
            lines.next()
        if lines.line is None:
            if first:
                raise lines.error(
                    "the file is empty",
                    expected="an output of ssearch36 -m 10",
                    found="only white space" if lines.offset else "nothing",
                )
            return False
        at = lines.number, lines.offset
        opening = lines.line
        head = lines.buffer[lines.position : lines.position + grammar.HEAD_BYTES]
        self._preamble = {}
        self._library = ""
        program = ""
        for _ in range(_PREAMBLE_LINES):
            line = lines.line
            if line is None or not lines.terminated:
                break
            if program and (match := grammar.VERSION_LINE.fullmatch(line)):
                self._version(lines, program, match)
                lines.next()
                return True
            if not (program and line.startswith(grammar.SECOND_PROGRAM_LINE)):
                match = grammar.PROGRAM_LINE.fullmatch(line)
                program = text(match[1]) if match else ""
            if line.startswith(b"# "):
                self._preamble["pg_argv"] = text(line[2:]).strip()
            lines.next()
        if first and (other := grammar.other_format(head)) is not None:
            raise lines.error(other, expected=M10_OUTPUT, found=shown(opening), at=at)
        raise lines.error(
            _NOT_SSEARCH if first else "no search starts here",
            expected="'# COMMAND LINE', 'SSEARCH ...' and ' version 36...' as first lines",
            found=shown(opening),
            at=at,
        )

    def _version(self, lines: Lines, program: str, version: re.Match[bytes]) -> None:
        self._frame.begin(program, text(version[1]))
        self._current_program = program
        self._preamble["pg_ver"] = text(version[1] + version[3]).strip()
        if self.program is None:
            self.program, self.version = program, text(version[1])

    def _search(self, lines: Lines) -> Iterator[tuple[int, str]]:
        """Reads a search from after its version line to after its end mark."""
        self._keys = SearchKeys()
        frame = self._frame
        query: Query | None = None
        while True:
            line = lines.line
            if line is None or not lines.terminated:
                if line != frame.last_mark:
                    raise lines.unexpected(frame.wanted, "the output is not complete")
                lines.terminated = True  # a whole end mark; only its newline is missing
            assert line is not None
            if line in (grammar.END_OF_QUERY, grammar.END_OF_SEARCH):
                ended = frame.ends(line)
                self._finish(query)
                query = None
                lines.next()
                if ended:
                    return
            elif line.startswith(b">>>"):
                frame.header()
                assert query is not None
                self._header(lines, query)
                yield from self._alignments(lines, query)
            elif b">>>" in line and (query_line := grammar.query_line(line)):
                frame.query(query_line)
                self._finish(query)
                query = self._query(query_line.name)
                lines.next()
            elif frame.accepts_unnumbered_query and (
                unnumbered := grammar.UNNUMBERED_QUERY.fullmatch(line)
            ):
                frame.query(grammar.QueryLine(1, unnumbered[1], int(unnumbered[2])))
                following = lines.next() or b""
                query = self._query(following[2:] if following.startswith(b" >") else unnumbered[1])
            elif line:
                self._frame_text(lines, line, query)
            else:
                lines.next()

    def _frame_text(self, lines: Lines, line: bytes, query: Query | None) -> None:
        """Handle a line that begins no part of an output: pass over text, refuse all else."""
        frame = self._frame
        # The histogram's last row starts with `>120`.
        frame.other_line()
        if line.startswith((b">>", grammar.NEXT_ALIGNMENT, b"; ")):
            raise lines.unexpected(
                "'>>>ID, N nt vs LIBRARY library' first"
                if frame.place is Place.QUERY
                else "'  N>>>QUERY', '>>><<<' or '>>>///'"
            )
        if frame.place is Place.BETWEEN:
            raise lines.unexpected("'  N>>>QUERY' or '>>>///' after '>>><<<'")
        if frame.place is Place.ALIGNMENTS:
            raise lines.unexpected("'>>', '>--' or '>>><<<' after an alignment")
        if query is None:
            program = grammar.PROGRAM_LINE.fullmatch(line)
            if (library := grammar.library_name(line)) is not None:
                self._library = text(library)  # up to version 34 it comes first
            lines.next()
            if program and lines.line and grammar.VERSION_LINE.fullmatch(lines.line):
                frame.begin(text(program[1]), "36")
            return
        if line.startswith(b"< ") and (
            bars := grammar.HISTOGRAM.match(lines.buffer, lines.position)
        ):
            lines.jump(bars.end())
            return
        if b" residues in " in line and (residues := grammar.RESIDUES.search(line)):
            frame.library(int(residues[1]))
        if line.startswith(grammar.BEST_SCORES):
            self._table(lines)
            return
        if (library := grammar.library_name(line)) is not None:
            self._library = text(library)
        else:
            for start, key in _SHOWN_PARAMETERS:
                if line.startswith(start):
                    query.parameters[key] = text(line[len(start) :]).strip()
        query.library = self._library
        lines.next()

    def _table(self, lines: Lines) -> None:
        """Passes over the table of best scores: its rows start with ids, which may be anything."""
        row = lines.next()
        while row is not None:
            if lines.pass_plain():
                self._frame.row()
                row = lines.line
                continue
            if not lines.terminated and row != self._frame.last_mark:
                return
            if grammar.ends_table(row):
                self._frame.table_ends(empty_line=not row)
                return
            self._frame.row()
            row = lines.next()

    def _closing(self, lines: Lines) -> None:
        """Reads the lines after the end mark, up to the next search or the end of the file."""
        while (line := lines.line) is not None:
            if match := grammar.QUERY_COUNT_LINE.match(line):
                self._frame.closing(int(match[1]), int(match[2]))
            elif line.startswith(grammar.LAST_LINE):
                lines.next()
                return
            elif line.startswith(b"# ") or grammar.PROGRAM_LINE.fullmatch(line):
                return
            elif line[:1].strip() and not line[:1].isdigit():
                if lines.terminated or not grammar.LAST_LINE.startswith(line):
                    raise lines.unexpected("the closing lines of the search or the next one")
            elif b">>>" in line:
                raise lines.unexpected("no query after '>>>///'")
            lines.next()

    # -- queries -----------------------------------------------------------------------------

    def _query(self, name: bytes) -> Query:
        seqid, _ = grammar.id_and_description(name)
        query = Query(self.counts.queries, seqid, self._library, dict(self._preamble))
        query.task = make_id(self._digest, Kind.TASKS, query.ordinal)
        self.counts.queries += 1
        return query

    def _header(self, lines: Lines, query: Query) -> None:
        """The `>>>` line and the pg_/mp_ lines; makes the task."""
        assert lines.line is not None
        library = grammar.header_library(lines.line)
        if library is None:
            raise lines.unexpected("'>>>ID, N nt vs LIBRARY library'")
        if not query.library:
            query.library = text(library)
        parameters: dict[str, str] = {}
        while (following := lines.next()) is not None and following.startswith(b"; "):
            if not lines.terminated:
                break
            parameter = grammar.ARGV_LINE.fullmatch(following) or grammar.PARAMETER_LINE.fullmatch(
                following
            )
            if parameter is None:
                raise lines.unexpected("'; pg_KEY: VALUE' or '; mp_KEY: VALUE'")
            pieces = [text(piece) for piece in parameter.groups()]
            for key, value in zip(pieces[::2], pieces[1::2], strict=True):
                name = grammar.SECOND_NAMES.get(key, f"{key}_2") if key in parameters else key
                if name in parameters:
                    raise lines.unexpected("each key once", f"{key} is given too often")
                parameters[name] = value.strip()
        if not parameters and following is not None and lines.terminated:
            expected = f"'; pg_name: PROGRAM', as in {M10_OUTPUT}"
            raise lines.error(NOT_M10_FORMAT, expected=expected, found=shown(following))
        # A search with `-S` has "xS" after the matrix: `BL50 matrix (15:-5)xS`.
        query.lower_case = ")xS" in query.parameters.get("mp_Parameters", "")
        query.parameters = parameters
        self._finish(query)

    def _finish(self, query: Query | None) -> None:
        """Adds the query's task, if that has not been done."""
        if query is None or query.ordinal != self._tasks_made:
            return
        document = task_document(
            query.task, query.id, query.library, query.parameters, study_fields=self._study
        )
        self._tasks.append(document)
        self._tasks_made += 1

    # -- alignments --------------------------------------------------------------------------

    def _alignments(self, lines: Lines, query: Query) -> Iterator[tuple[int, str]]:
        fast: FastReader | None = self._fast
        if grammar.translated_side(self._current_program) is not None:
            fast = None
        hit: bytes | None = None
        while (line := lines.line) is not None and lines.terminated:
            if not line:
                lines.next()
                continue
            if not line.startswith((b">>", b">--")) or (
                line.startswith(b">>>") and not grammar.continues_alignments(lines.following())
            ):
                return
            self._frame.aligned()
            with no_gc():
                last = None if fast is None else self._take(fast, lines, query, hit)
                if last is not None:
                    hit = last
                else:
                    start = lines.number, lines.offset
                    row, layout = read_alignment(
                        lines, self._current_program, hit, lower_case=query.lower_case
                    )
                    self._keys.check(lines, layout, start)
                    hit = row.hit
                    self._add(row, query, opens=line != grammar.NEXT_ALIGNMENT)
                    if fast is not None:
                        fast.learn(layout, lines.offset - start[1])
            if self._columns.room == 0:
                yield from self._batch(lines, self._current_program)

    def _take(
        self, fast: FastReader, lines: Lines, query: Query, hit: bytes | None
    ) -> bytes | None:
        """The alignments that the fast reader takes; the last one's hit line, None for none."""
        columns = self._columns
        columns.of(query.task, query.id)
        before = columns.rows
        last = fast.take(lines, columns, hit)
        if last is not None:
            assert fast.layout is not None
            self._keys.take(fast.layout)
            taken = columns.rows - before
            self.counts.hits += int(np.count_nonzero(columns.opens[before : columns.rows]))
            self._repeated.add_rows(columns, before)
            self.counts.alignments += taken
            self.fast_alignments += taken
        return last

    def _add(self, row: grammar.Alignment, query: Query, *, opens: bool) -> None:
        self._columns.of(query.task, query.id)
        self._columns.append(row, opens=opens)
        self._repeated.add(row, opens=opens)
        self.counts.hits += opens
        self.counts.alignments += 1

    def documents(self) -> tuple[Any, Any, Any, Any]:
        """The tasks, rna, gs and align documents of the batch, encoded."""
        columns, digest, study = self._columns, self._digest, self._study
        if self._encoding == "dict":
            return self._tasks, *dicts_of(columns, digest, study_fields=study)
        if self._encoding == "bson":
            tasks = list(map(to_bson, self._tasks))
            return tasks, *bson_of(columns, digest, study_fields=study)
        from storewise.ssearch.parse.arrow import batch_of, record_batches

        batch = batch_of(Kind.TASKS, self._tasks, study_fields=study)
        return batch, *record_batches(columns, digest, study_fields=study)
