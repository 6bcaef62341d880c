"""Where the ids of a kind are cut, so that a load finds its shards or regions spread already."""

from __future__ import annotations

from bisect import bisect_left

from storewise.documents import ID_BYTES, Kind

#: What YCSB's keys begin with; the number of a record's hash follows, without leading zeros.
KEY_PREFIX = b"user"
#: Hashes are absolute values of 64 bits with a sign.
_HASHES = 1 << 63
#: Digits of a split point.
_DIGITS = 6


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
    numbers = range(10 ** (_DIGITS - 1), 10**_DIGITS - 1)
    points = []
    for part in range(1, parts):
        at = bisect_left(numbers, part * _HASHES, key=lambda digits: _below(digits) * parts)
        points.append(KEY_PREFIX + b"%d" % (numbers.start + at))
    return points


def _below(digits: int) -> int:
    """How many numbers below 2^63, written out, sort before these digits.

    Those that have fewer digits, a millionth of a millionth, are left out.
    """
    total = 0
    for zeros in range(len(str(_HASHES)) - _DIGITS + 1):
        first = 10 ** (_DIGITS + zeros - 1)
        total += max(0, min(digits * 10**zeros, _HASHES) - first)
    return total
