"""Damaged inputs, each made from a real output, and where the damage is in their bytes."""

import bz2
import gzip
import re
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard
from support.paths import DATA, SAMPLE

PACKED = (SAMPLE / "queries_01__yersinia.m10.gz").read_bytes()
#: A real output: 4 queries, 80 alignments, plain.
CONTENT = gzip.decompress(PACKED)
ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT)
DOCUMENTS = 4 + 3 * 80

_HITS = [match.start() for match in re.finditer(rb"^>>(?!>)", CONTENT, re.MULTILINE)]
#: The hit that most of the damage is done to: in the third query, with others around it.
HIT = next(at for at in _HITS[45:] if b"\n; sw_frame: f\n" in CONTENT[at : at + 150])
REVERSE = next(at for at in _HITS[45:] if b"\n; sw_frame: r\n" in CONTENT[at : at + 150])
SEQUENCE = CONTENT.index(b"\n", CONTENT.index(b"; al_display_start", HIT)) + 1


@dataclass(frozen=True)
class Bad:
    """A bad file: its bytes, what its message must say, and where: `at` is a byte of the line that
    is wrong, in `content` (decompressed; the file's own where None), None where damaged compressed
    data have no one place."""

    kind: str
    stored: bytes
    at: int | None
    says: str
    content: bytes | None = None

    @property
    def decompressed(self):
        return self.stored if self.content is None else self.content

    @property
    def place(self):
        """Line and offset of the line's first byte, counted here from the bytes alone."""
        return None if self.at is None else place_of(self.decompressed, self.at)


def place_of(content, at):
    """(line from 1, offset of its first byte) of byte `at`; the end of the content counts too."""
    before = content[:at].split(b"\n")
    return len(before), at - len(before[-1])


def damaged(pattern, replacement, start=HIT):
    """The content with the first match of `pattern` behind `start` changed, and where it was."""
    match = re.compile(pattern).search(CONTENT, start)
    assert match is not None, pattern
    return CONTENT[: match.start()] + match.expand(replacement) + CONTENT[match.end() :], (
        match.start()
    )


def _edit(kind, pattern, replacement, says, *, hit=None):
    """Damage to one line; `hit` is where the message points if not to that line itself."""
    stored, at = damaged(pattern, replacement, HIT if hit is None else hit)
    return Bad(kind, stored, at if hit is None else hit, says)


def _cut(kind, end, says):
    """The content up to `end`: the message points to the last line, or behind it."""
    return Bad(kind, CONTENT[:end], end, says)


def inflated(packed):
    """What zlib gives of damaged gzip data, byte for byte, before it notices or they end."""
    reader = zlib.decompressobj(wbits=31)
    content = b""
    for i in range(len(packed)):
        try:
            content += reader.decompress(packed[i : i + 1])
        except zlib.error:
            break
    return content


def _flip(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


def _compressed():
    half = PACKED[: len(PACKED) // 2]
    known = inflated(half)
    frame = zstandard.ZstdDecompressor().decompressobj().decompress(ZSTD[:-9])
    early, corrupt = "the compressed data end too early", "corrupt compressed data"
    return [
        Bad("empty gzip", gzip.compress(b""), 0, "the file is empty", b""),
        Bad("empty zstd", zstandard.compress(b""), 0, "the file is empty", b""),
        Bad("truncated gzip", half, len(known), early, known),
        Bad("corrupt gzip", _flip(PACKED), None, corrupt, inflated(_flip(PACKED))),
        Bad("gzip with another checksum", PACKED[:-8] + bytes(4) + PACKED[-4:], None, corrupt,
            CONTENT),
        Bad("truncated zstd", ZSTD[:-9], len(frame), early, frame),
        Bad("corrupt zstd", _flip(ZSTD), None, corrupt, CONTENT),
        Bad("garbage behind gzip", PACKED + b"garbage", len(CONTENT), corrupt, CONTENT),
        Bad("compressed with bzip2", bz2.compress(CONTENT), 0, "compressed with bzip2"),
        Bad("compressed twice", gzip.compress(PACKED), 0, "compressed twice", PACKED),
    ]  # fmt: skip


def _incomplete():
    last_query = CONTENT.rindex(b">>><<<")
    end = CONTENT.rindex(b">>>///")
    complete, inside = "the output is not complete", "the file ends inside an alignment"
    other = CONTENT.index(b">>><<<\n", CONTENT.index(b"  2>>>"))
    header = CONTENT.index(b"\n>>>", CONTENT.index(b"  2>>>") + 10) + 1
    without_end = CONTENT[:other] + CONTENT[other + 7 :]
    without_block = CONTENT[:header] + CONTENT[other:]
    third, fourth = CONTENT.index(b"  3>>>"), CONTENT.index(b"  4>>>")
    doubled = CONTENT.replace(b"  3>>>", b"  4>>>")
    without_header, _ = damaged(rb">>>.*\n", b"", header)
    no_library, place = damaged(rb"\d+ residues in +\d+ seq", b"0 residues in     0 seq", 0)
    glued = CONTENT[: SEQUENCE + 20] + CONTENT
    return [
        Bad("empty file", b"", 0, "the file is empty"),
        Bad("only white space", b" \n\t\n\n  \n", 8, "only white space"),
        _cut("cut in the preamble", CONTENT.index(b"Algorithm: "), complete),
        _cut("cut in a hit's header line", HIT + 9, complete),
        _cut("cut in a sequence", SEQUENCE + 20, inside),
        _cut("cut before a query's end mark", last_query, complete),
        _cut("cut in the search's end mark", end + 4, complete),
        Bad("a query without its >>><<<", without_end, other, "'>>><<<' before the next query"),
        Bad("a query lost", CONTENT[:third] + CONTENT[fourth:], third,
            "queries are missing or doubled"),
        Bad("a query twice", doubled, third, "queries are missing or doubled"),
        Bad("a query's header lost", without_header, header, "not in the format of -m 10"),
        Bad("a search of no library", no_library, place, "the search had no library"),
        Bad("a query's alignments lost", without_block, header, "best scores, but no alignments"),
        Bad("a cut file with a whole one behind", glued, SEQUENCE, "unexpected line"),
        Bad("text behind the end", CONTENT + b"Killed\n", len(CONTENT), "no search starts here"),
    ]  # fmt: skip


def _foreign():
    fasta = gzip.decompress((SAMPLE / "fasta" / "yersinia.fa.gz").read_bytes())
    program = Path("/bin/sh").read_bytes()
    unknown = "not an output of ssearch36"
    return [
        Bad("FASTA", fasta, 0, unknown),
        Bad("a binary program", program, program.index(b"\0"), "a NUL byte"),
        Bad("HTML", b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n", 0, unknown),
        Bad("another program", CONTENT.replace(b" version 36", b" edition 36"), 0, unknown),
        Bad("UTF-16", CONTENT.decode().encode("utf-16-le"), 1, "a NUL byte"),
    ]


def _lines():
    line = CONTENT.index(b"\n", HIT)
    text = CONTENT[:HIT] + b"x" * (9 << 20) + b"\n" + CONTENT[HIT:]
    return [
        Bad("CR LF line ends", CONTENT.replace(b"\n", b"\r\n"), 0, "CR LF"),
        Bad("mixed line ends", CONTENT[:line] + b"\r" + CONTENT[line:], line, "CR LF"),
        Bad("CR line ends", CONTENT.replace(b"\n", b"\r"), 0, "not an output of ssearch36"),
        Bad("a NUL byte", CONTENT[: SEQUENCE + 3] + b"\0" + CONTENT[SEQUENCE + 4 :], SEQUENCE,
            "a NUL byte"),
        Bad("a line without end", text, HIT, "a line of more than"),
    ]  # fmt: skip


def _values():
    removed = CONTENT[:SEQUENCE] + CONTENT[SEQUENCE + 1 :]
    empty_line = CONTENT[:SEQUENCE] + b"\n" + CONTENT[SEQUENCE:]
    foreign, gap = (CONTENT[: SEQUENCE + 2] + c + CONTENT[SEQUENCE + 3 :] for c in (b"#", b"-"))
    number = "bad number"
    return [
        _edit("a number that is none", rb"; sw_expect: .*", rb"; sw_expect: 1.0e-x", number),
        _edit("a number with a word", rb"; sw_bits: ", rb"; sw_bits: nan#", number),
        _edit("a number as of Python", rb"; sw_ident: 0.", rb"; sw_ident: 0_", number),
        _edit("half a coordinate", rb"(; al_start: .*)", rb"\1.0", number),
        _edit("a sign alone", rb"; sq_len: .*", rb"; sq_len: -", number),
        _edit("another overlap", rb"(; sw_overlap: 2)2", rb"\g<1>1", "do not fit", hit=HIT),
        _edit("a negative overlap", rb"; sw_overlap: .*", rb"; sw_overlap: -5", number),
        _edit("a coordinate in words", rb"; al_start: .*", rb"; al_start: twelve", number),
        _edit("a huge integer", rb"; sw_score: .*", b"; sw_score: " + b"9" * 5000, number),
        _edit("more than 64 bits", rb"; sw_score: .*", rb"; sw_score: 9223372036854775808", number),
        _edit("an unknown frame", rb"; sw_frame: .*", rb"; sw_frame: x", "bad frame"),
        Bad("a residue lost", removed, HIT, "wrong length"),
        Bad("an empty line in a sequence", empty_line, SEQUENCE, "unexpected line"),
        Bad("a gap for a residue", gap, HIT, "coordinates"),
        Bad("a residue that is none", foreign, SEQUENCE, "residues"),
        _edit("al_stop changed", rb"(; al_stop: )(\d+)", rb"\g<1>1\2", "coordinates", hit=HIT),
        _edit("frame f for r", rb"; sw_frame: r", rb"; sw_frame: f", "frame", hit=REVERSE),
        _edit("frame r for f", rb"; sw_frame: f", rb"; sw_frame: r", "frame", hit=HIT),
        _edit("a score's key lost", rb"; sw_score: .*\n", rb"", "sw_score is missing", hit=HIT),
        _edit("a misspelt key", rb"; sw_score:", rb"; sw_scroe:", "sw_score is missing", hit=HIT),
    ]


def _keys():
    lost, _ = damaged(rb"; al_stop: .*\n", b"")
    # What is missing is noticed where the keys end.
    keys_end = SEQUENCE - (len(CONTENT) - len(lost))
    twice, at = damaged(rb"(; sw_score: .*\n)", rb"\1\1")
    second = at + len(CONTENT[at:].split(b"\n")[0]) + 1
    overlap, start = damaged(rb"; sw_overlap: .*\n", b"")
    return [
        Bad("a coordinate's key lost", lost, keys_end, "al_stop is missing"),
        Bad("the overlap lost", overlap, start, "the overlap is missing"),
        Bad("a key twice", twice, second, "a key given twice"),
        Bad("a hit's mark lost", CONTENT[:HIT] + CONTENT[HIT + 2 :], HIT, "unexpected line"),
        Bad("a foreign line", CONTENT[:HIT] + b"hello\n" + CONTENT[HIT:], HIT, "unexpected line"),
        Bad("a sequence's id lost", *damaged(rb">.* \.\.\n", b"", SEQUENCE), "unexpected line"),
    ]


def of_one_alignment():
    """What only a parse of the alignment can see."""
    return [*_values(), *_keys()]


def made_bad():
    """All that need no program."""
    return [*_compressed(), *_incomplete(), *_foreign(), *_lines(), *of_one_alignment()]


#: Formats of ssearch36, what must be said of such an output, and what stands at the place.
_SEARCHES = {
    "0": ("not in the format of -m 10", b"\n>>"),
    "3": ("not in the format of -m 10", b"\nSmith-Waterman score"),
    "6": ("not in the format of -m 10", b"\n\n<a name="),
    "8": ("as FASTA writes them", None),
    "9": ("not in the format of -m 10", b"\n\n>>[^>]"),
    "11": ("an output of -m 11", None),
    "B": ("not in the format of -m 10", b"\n>[^1]"),
    "BB": ("alignments in BLAST's format", None),
}


def searched_bad(directory):
    """Real outputs of ssearch36 that are no use, of searches made in `directory`."""
    for name in ("queries", "yersinia"):
        fasta = gzip.decompress((SAMPLE / "fasta" / f"{name}.fa.gz").read_bytes())
        if name == "queries":
            fasta = b">".join(fasta.split(b">")[:3])
        (directory / f"{name}.fa").write_bytes(fasta)
    (directory / "empty.fa").touch()

    def search(library, *arguments):
        command = ["ssearch36", "-q", "-H", *arguments, "-W", "0", "-E", "1000000000 -1",
                   "queries.fa", library]  # fmt: skip
        done = subprocess.run(command, cwd=directory, capture_output=True, timeout=300, check=False)
        assert done.stdout, done.stderr
        return done.stdout

    result = []
    for form, (says, mark) in _SEARCHES.items():
        output = search("yersinia.fa", "-m", form)
        found = re.search(mark, output) if mark else None
        at = found.start() + 1 if found else 0
        result.append(Bad(f"-m {form} output", output, at, says))
    for kind, library in (("an empty library", "empty.fa"), ("a missing library", "none.fa")):
        output = search(library, "-m", "10")
        at = output.index(b" 0 residues in ")
        result.append(Bad(kind, output, at, "the search had no library"))
    return result


#: An output of `-m 10 -d 0`: each query is a document, and nothing else is.
SCORES = (DATA / "ssearch36_scores.m10").read_bytes()
#: Changes that must not matter: name -> (content, documents).
GOOD = {
    "two files glued without a newline": (CONTENT.rstrip(b"\n") + CONTENT, 2 * DOCUMENTS),
    "gzip behind gzip": (PACKED + PACKED, 2 * DOCUMENTS),
    "gzip padded with zeros": (PACKED + bytes(512), DOCUMENTS),
    "no newline at the end": (CONTENT.rstrip(b"\n"), DOCUMENTS),
    "bytes that are not UTF-8": (
        CONTENT[: HIT + 3] + b"\xff" + CONTENT[HIT + 4 : HIT + 20] + b"\xfe" + CONTENT[HIT + 21 :],
        DOCUMENTS,
    ),
    "a score of inf": (damaged(rb"; sw_bits: .*", rb"; sw_bits: inf")[0], DOCUMENTS),
    "best scores and no alignments": (SCORES, SCORES.count(b">>><<<")),
}


def file_name(kind):
    return re.sub(r"[^A-Za-z0-9]+", "_", kind) + ".m10"
