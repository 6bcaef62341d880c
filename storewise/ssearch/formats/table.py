"""The searches and hits of a table, as tasks documents and columns of alignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from storewise.documents import Encoding
from storewise.errors import InputError
from storewise.ssearch.formats.documents import Documents, Part, Rows, Tasks
from storewise.ssearch.formats.format import InputFormat
from storewise.ssearch.formats.names import NEEDED, OF_HITS, column_names
from storewise.ssearch.formats.rows import Block, Blocks, Comments, parse_rows, row_of
from storewise.ssearch.parse.batch import Counts
from storewise.ssearch.parse.grammar import text
from storewise.ssearch.parse.lines import shown
from storewise.ssearch.parse.stream import ByteReader

#: Comment lines whose meaning is kept.
_MEANINGS = 1000


class _Number(NamedTuple):
    """A number in comments: of hits or of queries, and the line and byte offset where it stands."""

    value: int
    line: int
    offset: int


@dataclass(slots=True)
class _Meaning:
    """What comment lines say that repeat for each query: values, valid until others replace them;
    a number of hits, or of queries, whose places count from the first of these lines; and the last
    line that begins a search, -1 if none does. `state` is the state of the table when the values
    were applied."""

    values: dict[str, str]
    found: _Number | None
    processed: _Number | None
    begins: int
    lines: int
    size: int
    state: int = -1


class Table:
    """Reads a table from its first byte to its last.

    `counts`, `program` and `version` are of what was read so far. `read` raises InputError, with
    line, column, expected and found, for a row that does not fit, and for an incomplete output.
    """

    def __init__(
        self,
        written: InputFormat,
        name: str,
        digest: bytes,
        *,
        encoding: Encoding,
        study_fields: bool,
        rows_per_batch: int,
    ) -> None:
        assert written.table is not None
        self._form, self._name, self._per_batch = written.table, name, rows_per_batch
        self._digest, self._encoding, self._study = digest, encoding, study_fields
        self._named = bool(written.names)
        names = column_names(written.names, ungapped=self._form.ungapped)
        self._columns = self._checked(names, 1, 0)
        self.counts = Counts()
        self.program: str | None = None
        self.version: str | None = None
        self._part = Part(())
        self._parameters: dict[str, str] = {}
        self._library = ""
        #: Meanings of comments that were read; the values, and how often they have changed.
        self._meanings: dict[bytes, _Meaning] = {}
        self._values: dict[str, str] = {}
        self._state = 0
        self._by_comments = bool(self._form.query)
        #: The query of the row that was read last.
        self._query: str | None = None
        #: The query of comments that no row has followed yet.
        self._next: bytes | None = None
        self._promise: _Number | None = None
        #: Its rows so far.
        self._rows = 0
        #: Whether a row was read, and so the columns are settled.
        self._has_rows = False
        #: Queries of this output, of which a file may have several; None behind its last line.
        self._begun: int | None = None
        #: Searches that no batch has had yet.
        self._tasks: list[Tasks] = []

    def documents(self) -> Documents:
        """The tasks, rna, gs and align documents of the batch that was read last."""
        return self._part.documents(self._encoding, self._digest, study_fields=self._study)

    def hits(self) -> dict[str, Any]:
        """The hits of the batch as columns of BLAST's table (`ssearch.hits`)."""
        return self._part.hits(self.program)

    def read(self, stream: ByteReader) -> Iterator[tuple[int, str]]:
        """Reads batch after batch; yields the position in the file and the program of each, whose
        documents `documents` then gives."""
        end, line = 0, 1
        for block in Blocks(stream, self._name, self._form.passed):
            for part, position in self._read_block(block):
                self._part = part
                yield position, self.program or ""
            end, line = block.stop
        self._close_query(line, end)
        if self._form.ends and self._begun is not None:
            raise InputError(
                self._name, "the file ends too early", line=line, offset=end,
                expected=f"a last line with the number of queries, as `{self._form.advice}` has",
                found="the end of the file",
            )  # fmt: skip
        if self._tasks:
            self._part = Part(self._tasks)
            yield end, self.program or ""

    def _read_block(self, block: Block) -> Iterator[tuple[Part, int]]:
        if self._form.head is not None and not block.offset:
            block = self._without_head(block)
        rows: Rows | None = None
        starts: list[int] = []
        searches: list[int] = []
        begun: set[int] = set()
        at = 0
        if not block.comments and block.text:
            rows = self._parsed(block)
            if rows.number:
                block.rows = rows.number
        for comments in (*block.comments, None):
            stop = block.rows if comments is None else comments.row
            if stop > at:
                rows = rows or self._parsed(block)
                if self._by_comments:
                    self._rows += stop - at
                    if self._next is not None or not self.counts.queries:
                        self._next = None
                        self._begin(at)
                        begun.add(at)
                    starts.append(at)
                    searches.append(self.counts.queries - 1)
                at = stop
            if comments is not None:
                self._comments(comments)
        if rows is None:
            return
        if self._by_comments:
            rows.starts, rows.searches = np.array(starts), np.array(searches)
            self._check_queries(rows, block, new=begun)
            self._name_searches(rows)
        else:
            self._take_all(rows)
        rows.drop_queries_without_hits()
        yield from self._batches(rows, block)

    # -- columns -----------------------------------------------------------------------------

    def _checked(self, names: list[str], line: int, offset: int) -> list[str]:
        """The names of columns, if they make a hit."""
        identity = {"pident", "fident"} & set(names)
        missing = [one for one in (*NEEDED, "length") if one not in names]
        if names and (missing or not identity):
            raise InputError(
                self._name, "it lacks columns that a hit needs", line=line, offset=offset,
                expected=f"all of {', '.join(NEEDED)}, length and pident",
                found=", ".join(names),
            )  # fmt: skip
        return names

    def _without_head(self, block: Block) -> Block:
        """A first block without its line of names."""
        assert self._form.head is not None
        head = self._form.head.match(block.text)
        if head is None:
            return block
        if not self._named:
            names = text(head["fields"]).split("\t")
            self._columns = self._checked(
                column_names(names, ungapped=self._form.ungapped), block.line, block.offset
            )
        return block.without_first_row(len(head[0]))

    def _parsed(self, block: Block) -> Rows:
        self._has_rows = True
        if not self._columns:
            first, line, offset = row_of(block, 0)
            number = first.count(b"\t") + 1
            known = self._form.columns
            if number in known:
                self._columns = list(known[number])
            elif number > max(known) and not self._form.comments:
                # Further columns, which only their user knows.
                standard = known[max(known)]
                self._columns = [*standard, *(f"{n + 1}" for n in range(len(standard), number))]
            else:
                numbers = " or ".join(map(str, sorted(known)))
                raise InputError(
                    self._name, f"the row has {number} columns", line=line, offset=offset,
                    expected=f"{numbers} columns with tabs between them", found=shown(first),
                )  # fmt: skip
        try:
            parse = partial(parse_rows, block, self._columns, self._name)
            return Rows(parse(), self._form, partial(parse, OF_HITS))
        except InputError:
            rest = block.without(self._form.seldom) if self._form.seldom else block
            if rest.rows == block.rows:
                raise
            block.text, block.comments = rest.text, rest.comments
            parse = partial(parse_rows, rest, self._columns, self._name)
            return Rows(parse(), self._form, partial(parse, OF_HITS))

    # -- searches ----------------------------------------------------------------------------

    def _comments(self, comments: Comments) -> None:
        """Take what comment lines say; each query's own line is alone, all others come again."""
        line, offset = comments.line, comments.offset
        if not self._by_comments:
            self._apply(comments.text, line, offset)
            return
        words, mark = comments.text, self._form.query
        at = -1 if words.startswith(mark) else words.find(b"\n" + mark)
        if at >= 0 or not words.startswith(mark):
            before = words[: at + 1] if at >= 0 else words
            line, offset = self._apply(before, line, offset)
        while offset < comments.offset + len(words):
            start = offset - comments.offset
            end = words.find(b"\n", start) + 1
            at = words.find(b"\n" + mark, end - 1)
            self._close_query(line, offset)
            self._next = words[start + len(mark) : end - 1]
            self._begun = (self._begun or 0) + 1
            rest = words[end : at + 1] if at >= 0 else words[end:]
            line, offset = self._apply(rest, line + 1, comments.offset + end)

    def _apply(self, words: bytes, line: int, offset: int) -> tuple[int, int]:
        """Take what comment lines say that stand at `line` and `offset`; returns where they end."""
        meaning = self._meanings.get(words)
        if meaning is None:
            meaning = self._meaning(words)
            if len(self._meanings) < _MEANINGS:
                self._meanings[words] = meaning
        if meaning.begins >= 0:
            self._close_query(line, offset)
            self._begun = self._begun or 0
        if meaning.state != self._state:
            self._take_values(meaning.values, line, offset)
            meaning.state = self._state
        if (found := meaning.found) is not None:
            self._promise = _Number(found.value, line + found.line, offset + found.offset)
        if (processed := meaning.processed) is not None:
            line_of, offset_of = line + processed.line, offset + processed.offset
            self._close_query(line_of, offset_of)
            if self._by_comments and processed.value != self._begun:
                raise InputError(
                    self._name, "the output is not complete", line=line_of, offset=offset_of,
                    expected=f"{self._begun} queries, as counted above this line",
                    found=f"{processed.value} queries",
                )  # fmt: skip
            # Behind the end of one output another one may begin.
            self._begun = 0 if meaning.begins > processed.line else None
        return line + meaning.lines, offset + meaning.size

    def _meaning(self, words: bytes) -> _Meaning:
        """The meaning of some comment lines."""
        values: dict[str, str] = {}
        numbers: dict[str, _Number] = {}
        lines = words.split(b"\n")[:-1]
        offset, begins = 0, -1
        for line, comment in enumerate(lines):
            for pattern in self._form.comments:
                if match := pattern.fullmatch(comment):
                    for name, value in match.groupdict().items():
                        if name in ("found", "processed"):
                            numbers[name] = _Number(int(value), line, offset)
                        else:
                            values[name] = text(value).strip()
                        begins = line if name == "program" else begins
                    break
            offset += len(comment) + 1
        return _Meaning(
            values, numbers.get("found"), numbers.get("processed"),
            begins, len(lines), len(words),
        )  # fmt: skip

    def _take_values(self, values: dict[str, str], line: int, offset: int) -> None:
        before, self._values = self._values, {**self._values, **values}
        if self._values == before:
            return
        self._state += 1
        now = self._values
        self.program = self.program or now.get("program")
        self.version = self.version or now.get("version")
        named = {"pg_name": "program", "pg_ver": "version", "pg_argv": "argv"}
        self._parameters = {key: now[name] for key, name in named.items() if name in now}
        self._library = now.get("database", "")
        fields = values.get("fields", "")
        if not fields or self._named or not self._form.named or fields == before.get("fields"):
            return
        if self._has_rows:
            raise InputError(
                self._name, "the columns change within the file", line=line, offset=offset,
                expected=before.get("fields"), found=fields,
            )  # fmt: skip
        names = column_names(
            [one.strip() for one in fields.split(",")], ungapped=self._form.ungapped
        )
        self._columns = self._checked(names, line, offset)

    def _close_query(self, line: int, offset: int) -> None:
        """End the query that comments began: add its task if no row did, check its hits."""
        if self._next is not None:
            self._begin(text(self._next).removeprefix(" ").split(" ", 1)[0].split("\t", 1)[0])
        self._next, promise, self._promise = None, self._promise, None
        rows, self._rows = self._rows, 0
        if promise is None or not self._form.counts:
            return
        right = rows == promise.value
        if self._form.counts == "sequences":
            right = rows >= promise.value
        elif self._values.get("program") in self._form.more_counted:
            right = rows <= promise.value
        if not right:
            raise InputError(
                self._name, "the output is not complete", line=line, offset=offset,
                expected=f"{promise.value} hits, as line {promise.line} says",
                found=f"{rows} rows",
            )  # fmt: skip

    def _begin(self, query: str | int) -> None:
        """Begin a search; `query` is its name, or the row of this block that has the name."""
        last = self._tasks[-1] if self._tasks else None
        # The parameters are the same object until they change.
        if last is None or last.parameters is not self._parameters or last.library != self._library:
            last = Tasks(self.counts.queries, self._library, self._parameters, [])
            self._tasks.append(last)
        last.queries.append(query)
        self.counts.queries += 1

    def _check_queries(self, rows: Rows, block: Block, *, new: set[int]) -> None:
        """Refuse a row that names another query than the row before it, with no comment between
        them that begins a query: the rows `new` follow one that does."""
        before, self._query = self._query, rows.query(rows.number - 1)
        changes = rows.changes().tolist()
        if before == rows.query(0):
            del changes[0]
        wrong = [row for row in changes if row not in new]
        if wrong:
            text_of, line, offset = row_of(block, wrong[0])
            expected = rows.query(wrong[0] - 1) if wrong[0] else before
            raise InputError(
                self._name, "the row is of another query", line=line, offset=offset,
                expected=f"rows of {expected}, as before", found=shown(text_of),
            )  # fmt: skip

    def _name_searches(self, rows: Rows) -> None:
        """Set the query of each search that began at a row of this block."""
        begun = [query for one in self._tasks for query in one.queries if isinstance(query, int)]
        names = iter(rows.queries.take(pa.array(begun, pa.int64())).to_pylist())
        for one in self._tasks:
            one.queries = [next(names) if isinstance(q, int) else q for q in one.queries]

    def _take_all(self, rows: Rows) -> None:
        """The searches of all rows, which begin where the query changes."""
        starts = rows.changes()
        queries = rows.queries.take(starts)
        goes_on = self._query == queries[0].as_py()
        self._query = queries[len(queries) - 1].as_py()
        new = queries.slice(1) if goes_on else queries
        first = self.counts.queries - goes_on
        rows.starts, rows.searches = starts, np.arange(first, first + len(starts))
        if len(new):
            tasks = Tasks(self.counts.queries, self._library, self._parameters, new)
            self._tasks.append(tasks)
            self.counts.queries += len(new)

    # -- alignments --------------------------------------------------------------------------

    def _batches(self, rows: Rows, block: Block) -> Iterator[tuple[Part, int]]:
        first = self.counts.alignments
        for start in range(0, max(rows.number, 1), self._per_batch):
            stop = min(start + self._per_batch, rows.number)
            self.counts.alignments += stop - start
            self.counts.hits += stop - start
            tasks, self._tasks = self._tasks, []
            # In the middle of a block the place is known by the share of its rows.
            size = block.stop[0] - block.offset
            at = block.offset + (size * stop // rows.number if rows.number else size)
            yield Part(tasks, rows, start, stop, first), at
