"""Bad input: always one error, at the right line and byte; never a hang, never a silent loss."""

import gzip
import io
import os

import pytest
import zstandard
from support.inputs.bad_files import made_bad
from support.inputs.ssearch import DATA, DIGEST, REAL, STEP, outcome, read

from storewise.errors import InputError
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.inspect import inspect_file
from storewise.ssearch.parse.stream import Raw, content_digest, open_input
from storewise.ssearch.reader import DocumentReader

CONTENT = (DATA / "ssearch36.m10").read_bytes()


def line_of(content, offset):
    return content.count(b"\n", 0, offset) + 1


@pytest.mark.parametrize("name", [name for name in REAL if name != "fasta34_nohits.m10"])
def test_truncated_anywhere(name):
    """Every cut before the end mark is an error at the cut, which both readers word alike; every
    cut behind it is complete."""
    content = (DATA / name).read_bytes()
    mark = b">>>///" if b">>>///" in content else b">>><<<"
    whole = content.rindex(mark) + len(mark)
    assert outcome(content[:whole])[0] == "documents"
    hits = [i + 1 for i in range(whole) if content.startswith(b"\n>>", i)][:: 8 * STEP]
    # Also in a hit's line, right behind a whole alignment.
    cuts = {*range(0, whole, len(content) * STEP // 80 + 1), whole - 1}
    for cut in cuts.union(hit + more for hit in hits for more in (2, 9) if hit + more < whole):
        result = outcome(content[:cut])
        assert outcome(content[:cut], mode="reference") == result, cut
        if mark in content[:cut] and result[0] == "documents":
            continue  # a whole search, and nothing of the next one
        assert result[0] == "error", cut
        _, line, offset, _ = result
        # The error is where the file ends: at its last line or behind it.
        last = content.rfind(b"\n", 0, cut) + 1
        assert offset in (last, cut) or cut - offset < 3000, cut
        assert line == line_of(content, offset), cut


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_truncated_in_a_later_search(mode):
    content = (DATA / "ssearch36_nohits.m10").read_bytes()
    for cut in range(9, content.rindex(b">>>///"), 10 * STEP):
        assert outcome(content + content[:cut], mode=mode)[0] == "error", cut


@pytest.mark.parametrize("bad", made_bad(), ids=lambda bad: bad.kind)
def test_what_is_damaged_in_one_place(bad):
    """Both readers name the place."""
    fast, reference = (outcome(bad.stored, mode=mode) for mode in ("fast", "reference"))
    assert fast == reference
    kind, *place, message = fast
    assert kind == "error" and bad.says in message
    if bad.at is not None:
        assert tuple(place) == bad.place


@pytest.mark.parametrize("name", REAL)
def test_the_manifest_and_the_load_agree_on_what_follows_the_end(name, tmp_path):
    """Of outputs of translating programs, too; what is refused is refused in the same words."""
    content, path = (DATA / name).read_bytes(), tmp_path / "a.m10"
    for behind in (b"", b"\n\n", b"Killed\n", b"  9>>>x - 5 nt\n", b"; key: 1\n", content[:300]):
        path.write_bytes(content + behind)
        found = []
        for reads in (scan_file, lambda file: DocumentReader(file, DIGEST).count(), read):
            try:
                reads(path)
                found.append("complete")
            except InputError as error:
                found.append(str(error))
        assert len(set(found)) == 1


class Endless(io.RawIOBase):
    def readinto(self, buffer):
        buffer[:] = b"x" * len(buffer)
        return len(buffer)

    def readable(self):
        return True


def test_a_line_without_end_is_not_taken_into_memory():
    with pytest.raises(InputError, match="line of more than"):
        list(DocumentReader(io.BufferedReader(Endless()), DIGEST))


ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress
PARTS = [CONTENT[i : i + 20_000] for i in range(0, len(CONTENT), 20_000)]
GZIPS, FRAMES = [gzip.compress(part) for part in PARTS], [ZSTD(part) for part in PARTS]
#: Stored bytes and the error message that they cause; None where they are valid.
PACKED = {
    "plain": (CONTENT, None),
    "gzip": (gzip.compress(CONTENT), None),
    "gzip members": (b"".join(GZIPS), None),
    "gzip padded": (gzip.compress(CONTENT) + bytes(700), None),
    "an empty member": (b"".join([GZIPS[0], gzip.compress(b""), *GZIPS[1:]]), None),
    "zstd": (ZSTD(CONTENT), None),
    "zstd frames": (b"".join(FRAMES), None),
    "zstd skippable": (b"\x53\x2a\x4d\x18\x04\0\0\0abcd" + ZSTD(CONTENT), None),
    "an empty frame": (b"".join([FRAMES[0], ZSTD(b""), *FRAMES[1:]]), None),
    "a member lost": (b"".join(GZIPS[:-1]), "ends|complete"),
    "a frame lost": (b"".join(FRAMES[:-1]), "ends|complete"),
    "garbage behind zstd": (b"".join([*FRAMES, b"garbage"]), "corrupt compressed data"),
    "zstd behind gzip": (b"".join([*GZIPS, FRAMES[0]]), "corrupt compressed data"),
}


@pytest.mark.parametrize("name", PACKED)
def test_compressed(name, tmp_path):
    packed, says = PACKED[name]
    path = tmp_path / "no_suffix_tells"
    path.write_bytes(packed)
    if says is not None:
        for reads in (read, scan_file):
            with pytest.raises(InputError, match=says) as caught:
                reads(path)
            assert str(caught.value).startswith(str(path))
        return
    assert outcome(path) == outcome(CONTENT)
    assert content_digest(path) == content_digest(io.BytesIO(CONTENT)) == scan_file(path).digest
    with open_input(path) as stream:
        pieces = list(iter(lambda: stream.read(777), b""))
    assert b"".join(pieces) == CONTENT and all(len(p) <= 777 for p in pieces)
    with open_input(path) as stream:
        raw = Raw(stream)
        first = raw.read(9)
        assert 0 < len(first) <= 9
        assert (first + raw.read(-1), raw.read()) == (CONTENT, b"")


@pytest.mark.parametrize("name", ["gzip members", "zstd skippable"])
def test_compressed_and_truncated_or_corrupt(name):
    packed, _ = PACKED[name]
    for at in [*range(20, len(packed), len(packed) * STEP // 500), len(packed) - 1]:
        assert outcome(packed[:at])[0] == "error", at
        broken = bytearray(packed)
        broken[at] ^= 0x5A
        assert outcome(bytes(broken))[0] == "error", at


def test_standard_input(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb") as end:
        end.write(gzip.compress(CONTENT))
        end.close()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(pipe))
        assert outcome("-") == outcome(CONTENT)


def test_inspect(tmp_path):
    keys = [
        "file",
        "format",
        "program",
        "version",
        "queries",
        "hits",
        "alignments",
        "documents",
        "complete",
    ]
    result = inspect_file(DATA / "ssearch36.m10")
    assert list(result) == keys
    assert list(result.values())[1:] == ["m10", "SSEARCH", "36.3.8i", 3, 36, 36, 111, True]
    (tmp_path / "bad").write_bytes(CONTENT[:9000])
    result = inspect_file(tmp_path / "bad")
    assert list(result) == [*keys, "error"] and result["complete"] is False
    assert result["error"]["line"] == line_of(CONTENT, result["error"]["offset"])
    assert result["alignments"] > 0
    missing = inspect_file(tmp_path / "missing")
    assert missing["complete"] is False and missing["error"]["line"] is None
