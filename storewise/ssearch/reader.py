"""Documents from SSEARCH outputs: the reader of whole files.

The frame of a file (preambles, queries, ends) is read line by line here; its alignments, which are
all but a fraction of the bytes, by `fast` or `reference`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from storewise.documents import DIGEST_BYTES, Encoding, Kind, make_id
from storewise.errors import InputError
from storewise.ssearch import grammar
from storewise.ssearch.batch import Counts, DocumentBatch, Query, no_gc
from storewise.ssearch.build import ColumnBuilder, documents_of, task_document, to_bson
from storewise.ssearch.fast import Columns, FastReader
from storewise.ssearch.grammar import text
from storewise.ssearch.lines import CHUNK, Lines, shown
from storewise.ssearch.reference import SearchKeys, read_alignment
from storewise.ssearch.stream import Source, damage, open_input, source_name

Mode = Literal["auto", "fast", "reference"]

#: The first lines of a search; one that names no version in them is no output of these programs.
_PREAMBLE_LINES = 40
_NOT_SSEARCH = "this is not an output of ssearch36, fasta36, tfastx36, lalign36 or a sibling"


class DocumentReader:
    """Iterates over the documents of one SSEARCH output, as `DocumentBatch` objects.

    `source` is a path, ``"-"`` or a binary file; plain, gzip or zstd. `digest` is the digest of
    its decompressed content (`stream.content_digest`; its first 7 bytes go into the ids).
    `encoding` "dict" gives dicts with 12-byte ids, "bson" BSON bytes with ObjectIds. `mode` "auto"
    and "fast" use the fast reader where it can (auto tries it less and less often where it cannot),
    "reference" never does; the documents are the same. A batch has `alignments_per_batch`
    alignments, the last one fewer. `name` is what messages call the input, if not its path.

    Raises InputError, with line and byte offset, for anything that is not a complete output.
    `counts`, `program`, `version` (of the first search) and `fast_alignments` (how many the fast
    reader took) are right for what has been yielded, and final after the iteration.
    """

    def __init__(
        self,
        source: Source,
        digest: bytes,
        *,
        encoding: Encoding = "dict",
        mode: Mode = "auto",
        study_fields: bool = False,
        alignments_per_batch: int = 1000,
        chunk_bytes: int = CHUNK,
        name: str | None = None,
    ) -> None:
        if len(digest) < DIGEST_BYTES:
            raise ValueError(f"a digest of at least {DIGEST_BYTES} bytes, not {len(digest)}")
        if encoding not in ("dict", "bson"):
            raise ValueError(f"encoding {encoding!r} is neither 'dict' nor 'bson'")
        if mode not in ("auto", "fast", "reference"):
            raise ValueError(f"mode {mode!r} is none of 'auto', 'fast', 'reference'")
        if alignments_per_batch < 1 or chunk_bytes < 1:
            raise ValueError("alignments_per_batch and chunk_bytes must be at least 1")
        self.counts = Counts()
        self.program: str | None = None
        self.version: str | None = None
        self.fast_alignments = 0
        self._source = source
        self._name = name or source_name(source)
        self._digest = digest
        self._bson = encoding == "bson"
        self._mode = mode
        self._study = study_fields
        self._per_batch = alignments_per_batch
        self._chunk = chunk_bytes
        self._builder = ColumnBuilder(digest, study_fields=study_fields)
        self._batch = DocumentBatch()
        # Of the search and query that are being read:
        self._closed_queries = True
        self._current_program = ""
        self._preamble: dict[str, str] = {}
        self._library = ""
        self._queries_of_search = 0
        self._tasks_made = 0
        self._fast = FastReader(patient=mode == "fast")
        self._keys = SearchKeys()

    def __iter__(self) -> Iterator[DocumentBatch]:
        self.counts = Counts()
        self.program = self.version = None
        self.fast_alignments = 0
        self._tasks_made = 0
        self._batch = DocumentBatch()
        with open_input(self._source) as stream:
            try:
                lines = Lines(stream, self._name, self._chunk)
                while self._begin_search(lines):
                    yield from self._search(lines)
                    self._closing(lines)
            except InputError as error:
                raise damage(stream, error) from error
            if self._batch.tasks or self._batch.align:
                yield self._cut(lines, len(self._batch.align))

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
        self._preamble = {}
        self._library = ""
        program = ""
        for _ in range(_PREAMBLE_LINES):
            line = lines.line
            if line is None or not lines.terminated:
                break
            if line.startswith(b"# "):
                self._preamble["pg_argv"] = text(line[2:]).strip()
            elif match := grammar.PROGRAM_LINE.fullmatch(line):
                program = text(match[1])
            elif program and (match := grammar.VERSION_LINE.fullmatch(line)):
                self._version(program, text(match[1]), text(match[2]))
                lines.next()
                return True
            lines.next()
        raise lines.error(
            _NOT_SSEARCH if first else "no search starts here",
            expected="'# COMMAND LINE', 'SSEARCH ...' and ' version 36...' as first lines",
            found=shown(opening),
            at=at,
        )

    def _version(self, program: str, version: str, date: str) -> None:
        self._current_program = program
        self._preamble["pg_ver"] = (version + date).strip()
        if self.program is None:
            self.program, self.version = program, version
        digits = version.split(".")[0]
        self._closed_queries = not (digits.isdigit() and int(digits) < grammar.FIRST_CLOSED_VERSION)

    def _search(self, lines: Lines) -> Iterator[DocumentBatch]:
        """Reads a search from behind its version line to behind its end mark."""
        self._keys = SearchKeys()
        first = self.counts.queries
        query: Query | None = None
        closed = True
        while True:
            line = lines.line
            if line is None or not lines.terminated:
                if line in (grammar.END_OF_SEARCH, grammar.END_OF_QUERY) and self._is_end(line):
                    lines.terminated = True  # a whole end mark; only its newline is missing
                else:
                    raise lines.unexpected(self._wanted(query), "the output is not complete")
            assert line is not None
            if line == grammar.END_OF_SEARCH or (
                line == grammar.END_OF_QUERY and not self._closed_queries
            ):
                self._end_of_search(lines, query, closed)
                self._queries_of_search = self.counts.queries - first
                return
            if line == grammar.END_OF_QUERY:
                if query is None:
                    raise lines.unexpected("a query before '>>><<<'")
                if query.scored and not query.headed:
                    wanted = "'>>>ID, N nt vs LIBRARY library' first (was -d 0 asked for?)"
                    raise lines.unexpected(wanted, "best scores, but no alignments")
                self._finish(query)
                query, closed = None, True
                lines.next()
            elif line.startswith(b">>>"):
                if query is None or query.headed:
                    raise lines.unexpected("a query line '  1>>>ID' before its '>>>ID' line")
                self._header(lines, query)
                yield from self._alignments(lines, query)
            elif match := grammar.QUERY_LINE.fullmatch(line):
                if query is not None:
                    if self._closed_queries:
                        hint = "" if query.headed else " (is it an output of -m 10?)"
                        raise lines.unexpected(f"'>>><<<' before the next query{hint}")
                    self._finish(query)
                query = self._query(lines, match, self.counts.queries - first)
                closed = False
            elif line and self._frame_text(lines, line, query, after=first < self.counts.queries):
                continue
            else:
                lines.next()

    def _is_end(self, line: bytes) -> bool:
        return (line == grammar.END_OF_SEARCH) == self._closed_queries

    def _wanted(self, query: Query | None) -> str:
        if not self._closed_queries:
            return "'>>><<<' and the closing lines"
        return "'>>><<<' and '>>>///'" if query is not None else "'>>>///'"

    def _end_of_search(self, lines: Lines, query: Query | None, closed: bool) -> None:
        if self._closed_queries and not closed:
            raise lines.unexpected("'>>><<<' before '>>>///'")
        if query is not None:
            self._finish(query)
        lines.next()

    def _frame_text(self, lines: Lines, line: bytes, query: Query | None, *, after: bool) -> bool:
        """A line that is none of the marks; True if it has moved `lines` itself."""
        # The histogram's last row starts with `>120`.
        if line.startswith((b">>", grammar.NEXT_ALIGNMENT, b"; ")):
            raise lines.unexpected(
                "'>>>ID, N nt vs LIBRARY library' first (is it an output of -m 10?)"
                if query is not None and not query.headed
                else "'  N>>>QUERY', '>>><<<' or '>>>///'"
            )
        if query is None and after:
            raise lines.unexpected("'  N>>>QUERY' or '>>>///' after '>>><<<'")
        if query is not None and query.headed:
            raise lines.unexpected("'>>', '>--' or '>>><<<' after an alignment")
        if grammar.NO_LIBRARY_LINE.fullmatch(line):
            raise lines.error(
                "the search had no library", expected="sequences in the library (was its path "
                "right?)", found=shown(line),
            )  # fmt: skip
        if line.startswith(grammar.BEST_SCORES):
            # Rows start with the ids and hold descriptions: text up to the empty line.
            while (row := lines.next()) and lines.terminated and row != grammar.END_OF_QUERY:
                if query is not None:
                    query.scored = True
            return True
        match = grammar.LIBRARY_LINE.fullmatch(line) or grammar.OLD_LIBRARY_LINE.fullmatch(line)
        if match is not None:
            self._library = text(match[1])
        elif query is not None:
            for key in ("Algorithm", "Parameters"):
                start = f"{key}: ".encode()
                if line.startswith(start):
                    query.parameters[f"mp_{key}"] = text(line[len(start) :]).strip()
        if query is not None:
            query.library = self._library
        return False

    def _closing(self, lines: Lines) -> None:
        """Reads the lines after the end mark, up to the next search or the end of the file."""
        while (line := lines.line) is not None:
            if match := grammar.QUERY_COUNT_LINE.match(line):
                if int(match[1]) != self._queries_of_search:
                    raise lines.error(
                        "queries are missing",
                        expected=f"{int(match[1])} queries before this line, as it says",
                        found=f"{self._queries_of_search}",
                    )
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

    def _query(self, lines: Lines, match: Any, before: int) -> Query:
        number = int(match[1])
        if number != before + 1:
            raise lines.unexpected(f"query number {before + 1}", "queries are missing or doubled")
        words = text(match[2]).split(None, 1)
        query = Query(
            self.counts.queries, words[0] if words else "", self._library, dict(self._preamble)
        )
        query.task = make_id(self._digest, Kind.TASKS, query.ordinal)
        self.counts.queries += 1
        lines.next()
        return query

    def _header(self, lines: Lines, query: Query) -> None:
        """The `>>>` line and the pg_/mp_ lines; makes the task."""
        line = lines.line
        assert line is not None
        match = grammar.HEADER_LINE.fullmatch(line)
        if match is None:
            raise lines.unexpected("'>>>ID, N nt vs LIBRARY library'")
        if not query.library:
            query.library = text(match[3])
        parameters: dict[str, str] = {}
        while (following := lines.next()) is not None and following.startswith(b"; "):
            if not lines.terminated:
                break
            found = grammar.ARGV_LINE.fullmatch(following) or grammar.PARAMETER_LINE.fullmatch(
                following
            )
            if found is None:
                raise lines.unexpected("'; pg_KEY: VALUE' or '; mp_KEY: VALUE'")
            pieces = [text(piece) for piece in found.groups()]
            for key, value in zip(pieces[::2], pieces[1::2], strict=True):
                name = grammar.SECOND_NAMES.get(key, f"{key}_2") if key in parameters else key
                if name in parameters:
                    raise lines.unexpected("each key once", f"{key} is given too often")
                parameters[name] = value.strip()
        query.parameters = parameters
        query.headed = True
        self._finish(query)

    def _finish(self, query: Query) -> None:
        """Adds the query's task, if that has not been done."""
        if query.ordinal != self._tasks_made:
            return
        document = task_document(
            query.task, query.id, query.library, query.parameters, study_fields=self._study
        )
        self._batch.tasks.append(to_bson(document) if self._bson else document)
        self._tasks_made += 1

    # -- alignments --------------------------------------------------------------------------

    def _alignments(self, lines: Lines, query: Query) -> Iterator[DocumentBatch]:
        fast: FastReader | None = self._fast
        if self._mode == "reference" or grammar.translated_side(self._current_program) is not None:
            fast = None
        hit: bytes | None = None
        while (line := lines.line) is not None and lines.terminated:
            if not line:
                lines.next()
                continue
            if line.startswith(b">>>") or not line.startswith((b">>", b">--")):
                return
            with no_gc():
                columns = fast.take(lines, hit) if fast is not None else None
                if columns is not None:
                    hit = columns.hits[-1][2:]
                    self._keys.take(columns.layout)
                    self._add_columns(columns, query)
                else:
                    start = lines.number, lines.offset
                    row, layout = read_alignment(lines, self._current_program, hit)
                    self._keys.check(lines, layout, start)
                    hit = row.hit
                    self.counts.hits += line != grammar.NEXT_ALIGNMENT
                    self._add_row(row, query)
                    if fast is not None:
                        fast.learn(layout, lines.offset - start[1])
            while len(self._batch.align) >= self._per_batch:
                yield self._cut(lines, self._per_batch)

    def _add_row(self, row: grammar.Alignment, query: Query) -> None:
        documents = documents_of(
            row,
            self._digest,
            self.counts.alignments,
            query.task,
            query.id,
            study_fields=self._study,
        )
        batch = self._batch
        for target, document in zip((batch.rna, batch.gs, batch.align), documents, strict=True):
            target.append(to_bson(document) if self._bson else document)
        self.counts.alignments += 1

    def _add_columns(self, columns: Columns, query: Query) -> None:
        build: Any = self._builder.bson if self._bson else self._builder.dicts
        rna, gs, align = build(columns, self.counts.alignments, query.task, query.id)
        self._batch.rna += rna
        self._batch.gs += gs
        self._batch.align += align
        self.counts.hits += columns.new_hits
        self.counts.alignments += len(columns)
        self.fast_alignments += len(columns)

    def _cut(self, lines: Lines, count: int) -> DocumentBatch:
        """Takes the first `count` alignments and every task from the batch being filled."""
        whole = self._batch
        cut = DocumentBatch(
            whole.tasks,
            whole.rna[:count],
            whole.gs[:count],
            whole.align[:count],
            bytes_read=lines.offset,
        )
        self._batch = DocumentBatch([], whole.rna[count:], whole.gs[count:], whole.align[count:])
        return cut


def read_counts(source: Source) -> Counts:
    """Reads `source` whole and says what it holds; raises InputError as the reader does."""
    reader = DocumentReader(source, bytes(DIGEST_BYTES), encoding="bson")
    for _ in reader:
        pass
    return reader.counts


__all__ = ["Counts", "DocumentBatch", "DocumentReader", "Mode", "read_counts"]
