"""Lines of a byte stream with their numbers and offsets, in bounded memory."""

from __future__ import annotations

import numpy as np

from storewise.errors import InputError
from storewise.ssearch.parse.stream import ByteReader

#: The longest line taken; the longest real ones hold a command line (a few hundred kB at most).
MAX_LINE = 8 << 20
CHUNK = 1 << 19
_NEWLINE = 10
#: What is expected instead of a NUL byte, and of CR LF.
TEXT_EXPECTED = "text (a block of zeros is what a failed copy leaves)"
LF_EXPECTED = "LF line ends as the program writes them (convert with dos2unix)"
_PIECE = 1 << 15
#: Enough for `; pg_`, which tells what a line is that may be a mark.
_FOLLOWING = 5


def shown(data: bytes | None, limit: int = 60) -> str:
    """A piece of the input for a message: quoted, printable and short."""
    if data is None:
        return "the end of the file"
    text = data[:limit].decode("utf-8", "backslashreplace")
    return repr(text) + ("..." if len(data) > limit else "")


class Lines:
    """The current line, its number and offset; and the buffer after it for the fast reader.

    `buffer[position:]` starts with the current line, which is `line` (without its newline) or None
    at the end of the file. `number` is 1-based, `offset` is the byte position of the line in the
    decompressed content.
    """

    def __init__(self, stream: ByteReader, name: str, chunk: int = CHUNK) -> None:
        self.name = name
        self.buffer = b""
        self.position = 0
        self.number = 1
        self.line: bytes | None = None
        self.terminated = True
        self._stream = stream
        self._chunk = chunk
        self._base = 0
        self._end = 0
        self._ended = False
        #: A NUL byte, or the return of CR LF, that follows the buffer.
        self._foreign: bytes | None = None
        self._find()

    @property
    def offset(self) -> int:
        """Byte position of the current line in the decompressed content."""
        return self._base + self.position

    def error(
        self,
        reason: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        position: int | None = None,
        at: tuple[int, int] | None = None,
    ) -> InputError:
        """An error at the current line, at the line of buffer position `position`, or `at`.

        `at` is the (number, offset) of a line that has been passed.
        """
        if at is not None:
            return InputError(
                self.name, reason, line=at[0], offset=at[1], expected=expected, found=found
            )
        number, start = self.number, self.position
        if position is not None and position > start:
            number += self.buffer.count(b"\n", start, position)
            start = max(self.buffer.rfind(b"\n", start, position) + 1, start)
        return InputError(
            self.name,
            reason,
            line=number,
            offset=self._base + start,
            expected=expected,
            found=found,
        )

    def unexpected(self, expected: str, reason: str | None = None) -> InputError:
        """The error for a current line that is not what the format asks for here."""
        if self.line is None or not self.terminated:
            return self.error(
                reason or "the file ends too early",
                expected=expected,
                found="the end of the file" + (f" after {shown(self.line)}" if self.line else ""),
            )
        return self.error(reason or "unexpected line", expected=expected, found=shown(self.line))

    def next(self) -> bytes | None:
        """Moves to the next line and returns it."""
        if self.line is not None:
            self.position = self._end + self.terminated
            self.number += 1
        self._find()
        return self.line

    def following(self) -> bytes:
        """The first bytes of the line after the current one."""
        while len(self.buffer) - self._end <= _FOLLOWING and self.fill():
            continue
        return self.buffer[self._end + 1 : self._end + 1 + _FOLLOWING]

    def pass_plain(self) -> bool:
        """Moves past the lines from the current one on that are whole, not empty and have no
        `>` in them, as far as the buffer goes; whether there are any."""
        if not self.line:
            return False
        # Of one byte, which takes a tenth of the time of a search for `>>>`.
        mark = self.buffer.find(b">", self.position)
        end = len(self.buffer) if mark < 0 else mark
        end = self._empty_line(end) or self.buffer.rfind(b"\n", self.position, end) + 1
        if end <= self.position:
            return False
        self.jump(end)
        return True

    def jump(self, position: int, passed: int | None = None) -> bytes | None:
        """Moves to buffer `position`, the start of a line ahead, and returns that line; `passed`
        is how many lines that are, if known."""
        if passed is None:
            text = np.frombuffer(
                self.buffer, np.uint8, count=position - self.position, offset=self.position
            )
            # Three times as fast as bytes.count, which looks for one newline after the other.
            passed = int(np.count_nonzero(text == _NEWLINE))
        self.number += passed
        self.position = position
        self._find()
        return self.line

    def _empty_line(self, end: int) -> int | None:
        """Buffer position of the first empty line after the current one and before `end`.

        By pieces, with numpy: `bytes.find` of two newlines stumbles over each single one.
        """
        for start in range(self.position, end - 1, _PIECE):
            count = min(_PIECE + 1, end - start)
            newlines = np.frombuffer(self.buffer, np.uint8, count, start) == _NEWLINE
            pairs = newlines[1:] & newlines[:-1]
            first = int(pairs.argmax())
            if pairs[first]:
                return start + first + 1
        return None

    def fill(self) -> bool:
        """Reads more bytes after the current line; False at the end of the stream, or of what is
        text."""
        if self._ended or self._foreign is not None:
            return False
        chunk = self._stream.read(self._chunk)
        if not chunk:
            self._ended = True
            return False
        rest = self.buffer[self.position :]
        self._base += self.position
        self._end -= self.position
        self.position = 0
        self.buffer = rest + chunk if rest else chunk
        # What is wrong before it is said first, however far ahead the buffer goes.
        places = [self.buffer.find(b"\0", len(rest))] if b"\0" in chunk else []
        # A carriage return may be the last byte of one chunk, its line feed the first of the next.
        if b"\r" in chunk or rest.endswith(b"\r"):
            places.append(self.buffer.find(b"\r\n", max(len(rest) - 1, 0)))
        if places := [place for place in places if place >= 0]:
            place = min(places)
            self._foreign = self.buffer[place : place + 1]
            self.buffer = self.buffer[:place]
        return True

    def _no_text(self, foreign: bytes) -> InputError:
        """The error for the bytes after the buffer, which are not of lines of text."""
        place = len(self.buffer)
        if foreign == b"\0":
            return self.error("a NUL byte", expected=TEXT_EXPECTED, position=place)
        return self.error(
            "the line ends with CR LF",
            expected=LF_EXPECTED,
            # Of its own line alone: what is before it may be in the buffer or not.
            found=shown(self.buffer[max(place - 30, self.buffer.rfind(b"\n") + 1) :] + b"\r\n"),
            position=place,
        )

    def _find(self) -> None:
        start = self.position
        while True:
            end = self.buffer.find(b"\n", start)
            if end >= 0:
                self._end, self.terminated = end, True
                self.line = self.buffer[self.position : end]
                return
            if len(self.buffer) - self.position > MAX_LINE:
                raise self.error(f"a line of more than {MAX_LINE} bytes", expected="lines of text")
            searched = len(self.buffer) - self.position
            if not self.fill():
                break
            start = self.position + searched
        if self._foreign is not None:
            raise self._no_text(self._foreign)
        self._end, self.terminated = len(self.buffer), False
        self.line = self.buffer[self.position :] if self.position < len(self.buffer) else None
