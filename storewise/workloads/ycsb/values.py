"""Values of fields: random printable text, or text that follows from key and field."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np

from storewise.documents import Document
from storewise.workloads.ycsb.params import LoadParams

#: Text that checked values are slices of.
_TEXT = 1 << 20
_SIX_BITS = np.uint64(0x3F3F3F3F3F3F3F3F)
_SPACES = np.uint64(0x2020202020202020)


def random_text(random: np.random.Generator, count: int) -> str:
    """`count` characters, each of the 64 from space to underscore, as YCSB's
    RandomByteIterator has them: six bits of chance in each."""
    # Eight characters at once: no sum of 63 and 32 carries into the next one.
    words = random.bit_generator.random_raw(-(-count // 8)) & _SIX_BITS
    words += _SPACES
    return words.tobytes()[:count].decode("ascii")


class Values:
    """Makes values in blocks; each new one is new text, so that nothing can be compressed away.

    With ``dataintegrity`` a value follows from key and field, so that every reader can tell
    whether it is right; it is a slice of one text that all clients of a trial have.
    """

    def __init__(self, load: LoadParams, random: np.random.Generator, seed: int) -> None:
        self._lengths = load.lengths
        self.names = [f"field{i}" for i in range(load.fieldcount)]
        self._random = random
        self._text = ""
        if load.dataintegrity:
            text = np.random.default_rng(np.random.SeedSequence([seed, 0x79637362]))
            self._text = random_text(text, _TEXT + load.fieldlength)

    def due(self, key: bytes, field: int) -> str:
        """The value that a field must have, with ``dataintegrity``."""
        length = self._lengths.high
        at = (crc32(key) + field * 7919 * length) % _TEXT
        return self._text[at : at + length]

    def difference(self, key: bytes, document: Document) -> str | None:
        """The difference between a stored and the expected record, None if there is none."""
        if document.get("_id") != key:
            return f"has the key {document.get('_id')!r}"
        if extra := document.keys() - {"_id", *self.names}:
            return f"has a field {min(extra)!r} that was not stored"
        for i, name in enumerate(self.names):
            value = document.get(name)
            if not isinstance(value, str):
                return f"lacks field {name!r}"
            if not self._lengths.low <= len(value) <= self._lengths.high:
                return f"has {len(value)} characters in {name}"
            if self._text and value != self.due(key, i):
                return f"has a value in {name} that does not follow from its key"
        return None

    def texts(self, count: int) -> list[str]:
        """New values, `count` of them."""
        length = self._lengths.high
        places: Sequence[int] = range(0, (count + 1) * length, length)
        if self._lengths.low < length:
            places = [0, *np.cumsum(self._lengths.draw(self._random, count)).tolist()]
        text = random_text(self._random, places[-1])
        return [text[a:b] for a, b in pairwise(places)]

    def records(self, keys: Sequence[bytes]) -> list[Document]:
        """Whole new documents with these ids."""
        columns, count = ["_id", *self.names], len(self.names)
        if self._text:
            texts = iter([self.due(key, i) for key in keys for i in range(count)])
        else:
            texts = iter(self.texts(len(keys) * count))
        rows = zip(keys, *[texts] * count, strict=False)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def changes(self, keys: Sequence[bytes], *, whole: bool) -> list[dict[str, str]]:
        """New values of one field (or of all) of the records with these keys."""
        names, count = self.names, len(self.names)
        if whole:
            return [{name: document[name] for name in names} for document in self.records(keys)]
        fields = self._random.integers(0, count, size=len(keys)).tolist()
        if self._text:
            return [{names[i]: self.due(key, i)} for key, i in zip(keys, fields, strict=True)]
        texts = self.texts(len(keys))
        return [{names[i]: text} for i, text in zip(fields, texts, strict=True)]
