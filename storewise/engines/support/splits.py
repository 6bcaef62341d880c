"""Where the ids of a kind are cut, so that a load finds its shards or regions spread already."""

from __future__ import annotations

from storewise.documents import ID_BYTES, Kind

#: What YCSB's keys begin with; the number of a record's hash follows, without leading zeros.
KEY_PREFIX = b"user"
#: Hashes are absolute values of 64 bits with a sign.
_HASHES = 1 << 63
#: Hashes that are looked at for each part.
_KEYS_IN_PART = 1000
#: Of a split point; six digits tell ranges apart.
_POINT_BYTES = len(KEY_PREFIX) + 6


def split_points(kind: Kind, parts: int) -> list[bytes]:
    """The `parts` - 1 ids that cut a kind's ids into ranges with about equal numbers of documents.

    Ids begin with a digest, so equal ranges of them hold about equal numbers of files. Keys are
    YCSB's: ``user`` and a decimal number that is uniform in [0, 2^63). Empty for composite keys
    whose kind does not say how they are spread (`Kind.splits`).
    """
    if kind.splits is not None:
        return list(kind.splits(parts))
    if kind.key:
        return []
    if kind.fields[0].type == "key":
        return _keys(parts)
    whole = 1 << 32
    return [
        (number * whole // parts).to_bytes(4, "big") + bytes(ID_BYTES - 4)
        for number in range(1, parts)
    ]


def _keys(parts: int) -> list[bytes]:
    """Of the keys of evenly spaced hashes, in the order of texts, those that cut them."""
    hashes = range(0, _HASHES, _HASHES // (_KEYS_IN_PART * parts))
    keys = sorted(KEY_PREFIX + b"%d" % number for number in hashes)
    return [keys[len(keys) * part // parts][:_POINT_BYTES] for part in range(1, parts)]
