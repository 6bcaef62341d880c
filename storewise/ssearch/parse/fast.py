"""The fast reader of alignments: whole runs of them into columns.

It knows the layout (key lines in order) of an alignment that the reference reader has read, and
takes those that follow as long as they have it and keep the invariants. Where one does not, it is
left to the reference reader, which reads it or says what is wrong; so the fast reader only has to
be right about the alignments that it takes.
"""

from __future__ import annotations

from storewise.ssearch.parse import compiled, vectors
from storewise.ssearch.parse.columns import Columns
from storewise.ssearch.parse.grammar import Layout
from storewise.ssearch.parse.lines import Lines

#: Bytes that `vectors` looks at at once. It shrinks where alignments fail a check (outputs made
#: without `-W 0` show residues around each), for what lies after a failure is looked at in vain.
_FULL_WINDOW = 1 << 20
_SMALL_WINDOW = 1 << 12
#: After a failure so many alignments at most, first one, then twice as many each time, are left to
#: the reference reader before the next try.
_MAX_REST = 256
#: A layout of more keys, or of a longer one, no program writes.
_MAX_KEYS = 100
_MAX_KEY_BYTES = 100


class FastReader:
    """Takes runs of alignments from the buffer of `Lines`."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self._rest = 0
        self._next_rest = 1
        self._window = _FULL_WINDOW
        #: More bytes than an alignment is likely to have.
        self._likely_size = _SMALL_WINDOW

    def learn(self, layout: Layout, size: int) -> None:
        """Told of each alignment (of `size` bytes) that the reference reader had to read."""
        keys = [*(key for key, _ in layout.keys), *layout.query, *layout.library]
        if len(keys) + layout.codes > _MAX_KEYS or max(map(len, keys), default=0) > _MAX_KEY_BYTES:
            return
        self._likely_size = max(self._likely_size, 2 * size)
        if layout != self.layout:
            self.layout = layout
            self._window = _FULL_WINDOW
            self._rest = 0
        elif 2 * size > self._window:
            self._window = min(4 * size, _FULL_WINDOW)

    def take(self, lines: Lines, columns: Columns, hit: bytes | None) -> bytes | None:
        """Appends the alignments from the current line on that pass every check; the hit line
        (without its `>>`) of the last one, None where there are none.

        `hit` is the hit line that a leading `>--` continues. Moves `lines` past the last one.
        """
        if self.layout is None:
            return None
        if compiled.CORE:
            while True:
                stop, passed, last = compiled.take(
                    lines.buffer, lines.position, self.layout, columns, hit
                )
                if stop > lines.position:
                    lines.jump(stop, passed)
                    return last
                # What there is of an alignment may be its beginning only.
                if len(lines.buffer) - lines.position > self._likely_size or not lines.fill():
                    break
        if self._rest:
            self._rest -= 1
            return None
        if 2 * (len(lines.buffer) - lines.position) < self._window:
            lines.fill()
        start = lines.position
        end = min(start + self._window, len(lines.buffer))
        stop, last, failed = vectors.take(lines.buffer, start, end, self.layout, columns, hit)
        if stop == start:
            self._window = _SMALL_WINDOW
            self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, _MAX_REST)
            return None
        self._next_rest = 1
        if failed:
            self._window = max(self._window // 4, _SMALL_WINDOW)
        else:
            self._window = min(self._window * 2, _FULL_WINDOW)
        lines.jump(stop)
        return last
