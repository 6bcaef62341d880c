"""Bad input: always one error, at the right line and byte; never a hang, never a silent loss."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path

import pytest
import zstandard
from support.inputs.ssearch import DATA, DIGEST, REAL, outcome, read

from storewise.errors import InputError
from storewise.ssearch.inspect import inspect_file
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import content_digest, open_input

CONTENT = (DATA / "ssearch36.m10").read_bytes()
MODES = ("fast", "reference")
#: Outputs that are read in no time, of all layouts.
SHORT = [name for name in REAL if (DATA / name).stat().st_size < 16_000]


def failure(content: bytes, mode: str = "fast") -> InputError:
    with pytest.raises(InputError) as caught:
        read(content, mode=mode)
    return caught.value


def line_of(content: bytes, offset: int) -> int:
    return content.count(b"\n", 0, offset) + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["ssearch36_nohits.m10", "ssearch35.m10", "lalign36_protein.m10"])
def test_truncated_anywhere(name: str, mode: str) -> None:
    """Every cut before the end mark is an error at the cut; every cut behind it is complete."""
    content = (DATA / name).read_bytes()
    mark = b">>>///" if b">>>///" in content else b">>><<<"
    whole = content.rindex(mark) + len(mark)
    complete = outcome(content, mode=mode)
    # Every byte of the short ones; every third of the others, and all near the end mark.
    step = 1 if len(content) < 4000 else 3
    for cut in [*range(0, whole - 60, step), *range(whole - 60, len(content))]:
        result = outcome(content[:cut], mode=mode)
        if cut >= whole:
            assert result == complete, cut
            continue
        assert result[0] == "error", cut
        _, line, offset, _ = result
        # The error is where the file ends: at its last line or behind it.
        last = content.rfind(b"\n", 0, cut) + 1
        assert offset in (last, cut) or cut - offset < 3000, cut
        assert line == line_of(content, offset), cut


@pytest.mark.parametrize("name", SHORT)
def test_the_last_alignment_of_a_query_loses_its_end(name: str) -> None:
    """At every line, while what follows it is whole: all readers say where."""
    content = (DATA / name).read_bytes()
    begin = max(content.rfind(b"\n>>", 0, content.rfind(b"\n; ")), content.rfind(b"\n>--")) + 1
    end = content.find(b"\n\n", begin)
    if end < 0:
        end = content.index(b"\n>>>", begin)
    for cut in (i + 1 for i in range(begin, end) if content.startswith(b"\n", i)):
        damaged = content[:cut] + b"\n" + content[end + 1 :].lstrip(b"\n")
        assert outcome(damaged, mode="fast") == outcome(damaged, mode="reference"), cut


@pytest.mark.parametrize("mode", MODES)
def test_truncated_in_a_later_search(mode: str) -> None:
    content = (DATA / "ssearch36_nohits.m10").read_bytes()
    for cut in range(1, content.rindex(b">>>///"), 97):
        if not content[:cut].strip():
            continue
        assert outcome(content + content[:cut], mode=mode)[0] == "error", cut


FIRST_HIT = CONTENT.index(b"\n>>pGT875") + 1
LATER = CONTENT.index(b"\n>>BTGST") + 1


def changed(old: bytes, new: bytes, start: int = 0) -> bytes:
    at = CONTENT.index(old, start)
    return CONTENT[:at] + new + CONTENT[at + len(old) :]


#: name: (content, the line that the error names starts with, words of the message)
BAD = {
    "bad integer": (
        changed(b"; sw_score: 370", b"; sw_score: 37x"),
        b"; sw_score: 37x",
        "bad number",
    ),
    "bad float": (
        changed(b"; sw_ident: 0.567", b"; sw_ident: 0_567"),
        b"; sw_ident: 0_567",
        "bad number",
    ),
    "not a number": (
        changed(b"; sw_bits: ", b"; sw_bits: nan#", LATER),
        b"; sw_bits: nan#",
        "bad number",
    ),
    "bad coordinate": (
        changed(b"; al_start: 7\n", b"; al_start: 7.0\n"),
        b"; al_start: 7.0",
        "bad number",
    ),
    "bad length key": (changed(b"; sq_len: 809", b"; sq_len: -"), b"; sq_len: -", "bad number"),
    "bad frame": (changed(b"; sw_frame: r", b"; sw_frame: q"), b"; sw_frame: q", "bad frame"),
    "frame against coordinates": (changed(b"; sw_frame: r", b"; sw_frame: f"), b">>", "disagree"),
    "wrong overlap": (
        changed(b"; sw_overlap: 696", b"; sw_overlap: 695"),
        b">>RABGLTR",
        "do not fit",
    ),
    "residue lost": (
        changed(b"\nGCCAGTTTGAGAAGAC-", b"\nGCCGTTTGAGAAGAC-"),
        b">>RABGLTR",
        "wrong length",
    ),
    "gap for residue": (
        changed(b"\nGCCAGTTTGAGAAGAC-", b"\nGCC-GTTTGAGAAGAC-"),
        b">>RABGLTR",
        "coordinates",
    ),
    "wrong stop": (changed(b"; al_stop: 701\n", b"; al_stop: 702\n"), b">>RABGLTR", "coordinates"),
    "strange residue": (changed(b"\nGCCAGTTTGAG", b"\nGCCA?TTTGAG"), b"GCCA?TTTGAG", "unexpected"),
    "no overlap": (changed(b"; sw_overlap: 696\n", b""), b">pGT875 ..", "overlap is missing"),
    "key doubled": (
        changed(b"; sw_sim: 0.776", b"; sw_ident: 0.776"),
        b"; sw_ident: 0.776",
        "twice",
    ),
    "key without al_stop": (
        changed(b"; al_stop: 701\n", b""),
        b"GCCAGTTTGAG",
        "al_stop is missing",
    ),
    "library sequence lost": (changed(b">RABGLTR ..\n", b""), b"; sq_len: 1443", "unexpected"),
    "line of a hit lost": (changed(b">>BTGST", b"BTGST", FIRST_HIT), b"BTGST", "unexpected"),
    "text between hits": (
        changed(b"\n>>BTGST", b"\nhello\n>>BTGST", FIRST_HIT),
        b"hello",
        "unexpected",
    ),
    "empty line in a sequence": (
        changed(b"\nTACTGGGACGTCC", b"\n\nTACTGGGACGTCC"),
        b">>RABGLTR",
        "wrong length",
    ),
    "no header": (
        changed(b">>>pGT875, 1125 nt vs gst.nlib library\n", b""),
        b"; pg_name",
        "unexpected",
    ),
    "end of query lost": (changed(b">>><<<\n", b""), b">>><<<", "behind every query"),
    "another end of query lost": (
        changed(b">>><<<\n", b"", CONTENT.index(b"  2>>>")),
        b"  3>>>",
        "before the next query",
    ),
    "query lost": (changed(b"  2>>>", b"  3>>>"), b"  3>>>", "missing or doubled"),
    "last queries lost": (
        CONTENT[: CONTENT.index(b"  3>>>")] + CONTENT[CONTENT.index(b">>>///") :],
        b"3377 residues in 3 query",
        "queries are missing",
    ),
    "end mark of an unfinished query": (
        CONTENT[: CONTENT.index(b"\n>>>pGT875")] + b"\n" + CONTENT[CONTENT.index(b">>>///") :],
        b">>>///",
        "best scores, but no alignments",
    ),
    "text after the end": (CONTENT + b"garbage\n", b"garbage", "no search starts here"),
    "hits after the end": (changed(b"3377 residues", b">>X\n3377 residues"), b">>X", "unexpected"),
    "CR LF in the middle": (
        changed(b"; sw_sim: 0.776\n", b"; sw_sim: 0.776\r\n"),
        b"; sw_sim: 0.776\r",
        "CR LF",
    ),
    "CR LF everywhere": (CONTENT.replace(b"\n", b"\r\n"), b"# ssearch36", "CR LF"),
    "NUL bytes": (changed(b"CTGGACCTG", b"\0\0\0\0\0\0\0\0\0"), None, "NUL"),
    "empty library": (
        changed(b"    16442 residues in     6 sequences", b"        0 residues in     0 sequences"),
        b"        0 residues",
        "no library",
    ),
    "other output format": (
        CONTENT[: CONTENT.index(b"\n>>>pGT875") + 1] + CONTENT[FIRST_HIT:],
        b">>pGT875",
        "-m 10",
    ),
    "not an output": (b"hello world\n" * 100, b"hello", "not an output"),
    "FASTA": (b">seq1\nACGT\n", b">seq1", "not an output"),
    "binary": (bytes(range(1, 256)) * 9, None, "not an output"),
    "no version": (changed(b" version 36", b" edition 36"), b"# ssearch36", "not an output"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(BAD))
def test_bad_content(name: str, mode: str) -> None:
    content, line, words = BAD[name]
    error = failure(content, mode)
    assert words in str(error), str(error)
    assert error.line is not None and error.offset is not None
    assert error.line == line_of(content, error.offset)
    assert error.offset == 0 or content[error.offset - 1 : error.offset] == b"\n"
    if line is not None:
        assert content[error.offset :].startswith(line), content[error.offset :][:40]
    assert outcome(content, mode="fast") == outcome(content, mode="reference")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", gzip.compress(b"", mtime=0)], ids=["nothing", "lines", "gzip"]
)
def test_empty(content: bytes) -> None:
    assert "empty" in str(failure(content))


def test_a_line_without_end_is_not_taken_into_memory() -> None:
    class Endless(io.RawIOBase):
        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

        def readable(self) -> bool:
            return True

    with pytest.raises(InputError, match="line of more than"):
        list(DocumentReader(io.BufferedReader(Endless()), DIGEST))


ZSTD = zstandard.ZstdCompressor().compress
PACKED = {
    "plain": CONTENT,
    "gzip": gzip.compress(CONTENT),
    "gzip members": b"".join(
        gzip.compress(CONTENT[i : i + 9000]) for i in range(0, len(CONTENT), 9000)
    ),
    "gzip padded": gzip.compress(CONTENT) + bytes(700),
    "zstd": ZSTD(CONTENT),
    "zstd frames": b"".join(ZSTD(CONTENT[i : i + 9000]) for i in range(0, len(CONTENT), 9000)),
    "zstd skippable": b"\x53\x2a\x4d\x18\x04\0\0\0abcd" + ZSTD(CONTENT),
}


@pytest.mark.parametrize("name", list(PACKED))
def test_compressed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "no_suffix_tells"
    path.write_bytes(PACKED[name])
    assert outcome(path) == outcome(CONTENT)  # type: ignore[arg-type]
    assert content_digest(path) == content_digest(io.BytesIO(CONTENT))
    with open_input(path) as stream:
        pieces = list(iter(lambda: stream.read(777), b""))
    assert b"".join(pieces) == CONTENT and all(len(p) <= 777 for p in pieces)


@pytest.mark.parametrize("name", ["gzip", "gzip members", "zstd", "zstd frames", "zstd skippable"])
def test_compressed_and_truncated(name: str) -> None:
    packed = PACKED[name]
    step = max(len(packed) // 300, 1)
    for cut in [*range(5, len(packed), step), len(packed) - 1]:
        result = outcome(packed[:cut])
        assert result[0] == "error", cut


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_compressed_and_corrupt(name: str) -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    packed = PACKED[name] if name == "gzip" else compressor.compress(CONTENT)
    for at in range(20, len(packed), max(len(packed) // 100, 1)):
        broken = bytearray(packed)
        broken[at] ^= 0x5A
        assert outcome(bytes(broken))[0] == "error", at


def test_garbage_behind_gzip_is_an_error() -> None:
    error = failure(gzip.compress(CONTENT) + b"garbage")
    assert "corrupt" in str(error) and error.offset == len(CONTENT)


def test_position_of_truncated_gzip(tmp_path: Path) -> None:
    path = tmp_path / "cut.m10.gz"
    path.write_bytes(gzip.compress(CONTENT)[:-3000])
    known = len(zlib.decompressobj(31).decompress(path.read_bytes()))
    with pytest.raises(InputError) as caught:
        content_digest(path)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None and caught.value.offset <= known
    assert "end too early" in str(caught.value)


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "missing")
    with pytest.raises(InputError, match="directory"):
        read(tmp_path)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb") as end:
        end.write(gzip.compress(CONTENT))
        end.close()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(pipe))
        assert outcome("-") == outcome(CONTENT)  # type: ignore[arg-type]


def test_inspect(tmp_path: Path) -> None:
    keys = ["file", "program", "version", "queries", "hits", "alignments", "documents", "complete"]
    result = inspect_file(DATA / "ssearch36.m10")
    assert list(result) == keys
    assert list(result.values())[1:] == ["SSEARCH", "36.3.8i", 3, 36, 36, 111, True]
    path = tmp_path / "bad"
    path.write_bytes(CONTENT[:9000])
    result = inspect_file(path)
    assert list(result) == [*keys, "error"] and result["complete"] is False
    assert result["error"]["line"] == line_of(CONTENT, result["error"]["offset"])
    assert result["alignments"] > 0
    missing = inspect_file(tmp_path / "missing")
    assert missing["complete"] is False and missing["error"]["line"] is None
