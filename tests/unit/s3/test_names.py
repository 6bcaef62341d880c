"""Names of objects, and what stands for their content."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

from storewise.errors import StorewiseError
from storewise.s3 import checksums
from storewise.s3.listing import version, version_of
from storewise.s3.uri import Place, is_remote, parse

MIB = 1 << 20


@pytest.mark.parametrize(
    "name, expected",
    [
        ("s3://abc/k/l", Place("abc", "k/l")),
        ("s3://abc", Place("abc", "")),
        ("s3://abc/", Place("abc", "")),
        ("s3://a.b-9//a//b/", Place("a.b-9", "/a//b/")),
        (f"s3://{'a' * 63}/s3://x", Place("a" * 63, "s3://x")),
    ],
)
def test_a_name_is_a_bucket_and_a_key_as_it_is(name, expected):
    assert parse(name) == expected
    assert str(expected) in (name, f"{name}/")


@pytest.mark.parametrize(
    "name",
    [
        *("", "s3://", "s3:///k", "s3://ab/k", "s3://Abc/k", "s3://abc-/k", "s3://.abc", "abc/k"),
        *(f"s3://{'a' * 64}/k", "S3://abc/k", "s3:/abc/k", "s3://a_c/k"),
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(StorewiseError, match="names nothing on S3; expected s3://BUCKET/PREFIX"):
        parse(name)


def test_only_text_with_the_scheme_is_remote():
    assert is_remote("s3://abc/k")
    assert not any(map(is_remote, ("/data/s3://x", "data", Path("s3://abc/k"), None)))


def test_what_lies_below_a_place():
    for key, folder in (("", ""), ("/", ""), ("a", "a/"), ("a/b//", "a/b/"), ("/a", "/a/")):
        place = Place("abc", key)
        assert place.folder() == Place("abc", folder)
        assert place.below("x") == Place("abc", f"{folder}x")


def test_the_version_of_an_object_is_below_its_second():
    # Manifests that users have keep these numbers.
    assert version('"d41d8cd98f00b204e9800998ecf8427e"') == 831_638_958
    assert version("") != version('""')
    assert version_of(1_795_335_441 * 10**9 + 831_638_958) == 831_638_958


def test_a_digest_is_of_the_content_and_of_each_part(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "PART", 5 * MIB)
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    os.utime(path, ns=(0, 1_234_567_891))
    small = checksums.digest_file(path)
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert small == checksums.Digest(3, sha256, 1_234_567_891, ())
    in_base64 = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    assert small.fits(in_base64)
    assert not small.fits(None) and not small.fits("") and not small.fits(in_base64[:-1])
    for size, parts in ((5 * MIB, 0), (5 * MIB + 1, 2), (10 * MIB, 2), (10 * MIB + 7, 3)):
        data = os.urandom(1 << 16) * (size >> 16) + bytes(size & 0xFFFF)
        path.write_bytes(data)
        digest = checksums.digest_file(path)
        assert (digest.size, digest.sha256) == (size, hashlib.sha256(data).hexdigest())
        pieces = [data[i : i + 5 * MIB] for i in range(0, size, 5 * MIB)] if parts else []
        assert digest.parts == tuple(hashlib.sha256(piece).digest() for piece in pieces)
        assert len(digest.parts) == parts
        if parts:
            # Amazon S3 User Guide: the digest of the parts' digests, and their number.
            composite = base64.b64encode(hashlib.sha256(b"".join(digest.parts)).digest()).decode()
            assert digest.fits(f"{composite}-{parts}") and digest.fits(composite)
            assert not digest.fits(base64.b64encode(hashlib.sha256(data).digest()).decode())


def test_parts_fit_any_size():
    assert checksums.part_bytes(1) == 16 * MIB
    terabytes = 5 << 40
    part = checksums.part_bytes(terabytes)
    assert part % MIB == 0 and -(-terabytes // part) <= 10_000
