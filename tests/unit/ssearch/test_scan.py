"""The scan over line starts: equal to the full parse, and complete or an error."""

import gzip
import itertools
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.inputs.ssearch import content, scan
from support.paths import DATA, SAMPLE

from storewise.errors import InputError
from storewise.ssearch.inputs.scan import Scanner, scan_file

OLD = (DATA / "ssearch35.m10").read_bytes()


def test_version_35_closes_once():
    result = scan(OLD)
    assert (result.queries, result.hits, result.alignments, result.documents) == (3, 1, 1, 6)
    assert scan(OLD + OLD).queries == 6
    with pytest.raises(InputError, match=r"not complete.*'>>><<<'"):
        scan(OLD[: OLD.index(b">>><<<")])


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=60))
def test_pieces_of_any_size_give_the_same(sizes):
    data = content(SAMPLE / "queries_01__yersinia.m10.gz") + OLD
    scanner = Scanner("data")
    for start, end in itertools.pairwise([0, *itertools.accumulate(sizes), None]):
        scanner.feed(data[start:end])
    assert scanner.finish() == scan(data)


def test_a_search_cut_short_before_another_one():
    data = content(SAMPLE / "queries_01__yersinia.m10.gz")
    for mark in (b">>>///", b">>><<<", b"; sw_score", b"Library: "):
        cut = data[: data.index(mark)]
        with pytest.raises(InputError, match="not complete") as caught:
            scan(cut + b"\n" + data)
        assert caught.value.line is not None
        assert caught.value.line >= cut.count(b"\n")


def test_what_is_not_usable_is_said():
    for data, message in (
        (b"hello\n", "line 1 .*not an SSEARCH output.*'hello'"),
        (bytes(3000), "not an SSEARCH output"),
        (b"a" * (9 << 20), "not an SSEARCH output"),
        (b"line\n" * 400_000, "not an SSEARCH output"),
        (OLD.replace(b" ..\n", b" ..\r\n", 1), "CR LF"),
        (OLD.replace(b" ..", b"\0 ..", 1), "a NUL byte"),
    ):
        with pytest.raises(InputError, match=message):
            scan(data)
    with pytest.raises(InputError, match="cannot be read"):
        scan_file("none.m10")


def test_memory_is_bounded_by_a_piece(tmp_path):
    path = tmp_path / "large.m10"
    one = content(SAMPLE / "queries_01__arabidopsis.m10.gz")
    with path.open("wb") as out:
        for _ in range(40):
            out.write(one)
    assert path.stat().st_size > 20e6
    tracemalloc.start()
    scan_file(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


def test_sampled_digest_depends_on_content_and_size_only(tmp_path):
    data = content(SAMPLE / "queries_01__arabidopsis.m10.gz")
    path, other = tmp_path / "a.m10", tmp_path / "b.m10"
    path.write_bytes(data)
    other.write_bytes(data)
    os.utime(other, (1, 1))
    first = scan_file(path, digest="sampled")
    assert first.queries is first.alignments is first.documents is None
    assert len(first.digest) == 16
    assert first == scan_file(other, digest="sampled")
    assert first != scan_file(path, digest="sampled", seed=2)
    assert first.digest != scan_file(path).digest
    other.write_bytes(data + b"\n")
    assert first != scan_file(other, digest="sampled")
    # What the sample would hold whole is scanned whole.
    other.write_bytes(OLD)
    assert scan_file(other, digest="sampled") == scan_file(other)
    other.write_bytes(b"x" * 100_000)
    with pytest.raises(InputError, match="not an SSEARCH output"):
        scan_file(other, digest="sampled")
    # Of a compressed file the first block is decompressed for its preamble.
    other.write_bytes(gzip.compress(data * 3, compresslevel=0))
    assert scan_file(other, digest="sampled").queries is None
    other.write_bytes(gzip.compress(b"x" * 200_000, compresslevel=0))
    with pytest.raises(InputError, match="not an SSEARCH output"):
        scan_file(other, digest="sampled")
