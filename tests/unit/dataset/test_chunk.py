"""Inputs on their way to the parser."""

import hashlib
import io
from contextlib import contextmanager

import pytest

from storewise.dataset import chunk
from storewise.ssearch.parse.remote import Listed


@pytest.mark.parametrize("size", [50, 1000, 1001, 30_000])
def test_no_more_of_an_object_is_in_memory_than_is_kept(size, tmp_path, monkeypatch):
    text = (bytes(range(250)) * (size // 250 + 1))[:size]
    given = []

    class Stream(io.BytesIO):
        def read(self, size=-1, /):
            data = super().read(size)
            given.append(len(data))
            return data

    @contextmanager
    def opened(*source):
        yield Stream(text)

    monkeypatch.setattr(chunk, "open_input", opened)
    monkeypatch.setattr(chunk, "KEPT_BYTES", 1000)
    monkeypatch.setattr(chunk, "_READ", 100)
    content = chunk._content(Listed("s3://bucket/key", size, 0), tmp_path)
    assert max(given) <= 1001
    assert content.digest == hashlib.blake2b(text, digest_size=16).digest()
    assert (content.copy is not None) == (size > 1000)
    if content.copy is None:
        assert isinstance(content.source, io.BytesIO)
        assert content.source.getvalue() == text
    else:
        assert content.copy.read_bytes() == text
