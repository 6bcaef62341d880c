"""Split points of a kind's ids, to create shards or regions evenly before the load."""

from __future__ import annotations

from storewise.documents import ID_BYTES, Kind

#: YCSB's keys are ``user`` and a decimal number that is uniform below this one.
_HASHES = 1 << 63
#: Number of evenly spaced sample keys.
_SAMPLED = 1 << 14


def split_points(kind: Kind, parts: int) -> list[bytes]:
    """The `parts` - 1 ids that cut a kind's ids into ranges with about equal numbers of documents.

    Ids begin with a digest, so equal ranges of them hold about equal numbers of files. Keys are
    YCSB's, in the order of their digits. Empty for composite keys whose kind does not say how they
    are spread (`Kind.splits`).
    """
    if kind.splits is not None:
        return list(kind.splits(parts))
    if kind.key:
        return []
    if kind.fields[0].type == "key":
        keys = sorted(b"user%d" % (n * _HASHES // _SAMPLED) for n in range(_SAMPLED))
        return [keys[part * _SAMPLED // parts] for part in range(1, parts)]
    whole = 1 << 32
    return [
        (number * whole // parts).to_bytes(4, "big") + bytes(ID_BYTES - 4)
        for number in range(1, parts)
    ]
