"""Keys of YCSB: ``user`` and the FNV-1a hash of the record's number, or the number itself.

The hash is that of YCSB's ``Utils.hash`` (site.ycsb:core 0.17, site.ycsb.Utils): FNV-1a of 64 bits
(Fowler, Noll, Vo; draft-eastlake-fnv) over the eight octets of the number from its low end, then
the absolute value of the result as a signed number.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_OFFSET = 0xCBF29CE484222325
_PRIME = np.uint64(0x100000001B3)
_OCTET = np.uint64(0xFF)
_EIGHT = np.uint64(8)
#: Longest key: ``user``, then 19 digits or as many as zero padding asks for.
MAX_PADDING = 60


def fnv_hashes(numbers: Numbers) -> Numbers:
    """YCSB's hash of each of an array of numbers from 0 on, shape (n,)."""
    rest = numbers.astype(np.uint64)
    hashes = np.full(rest.shape, _OFFSET, dtype=np.uint64)
    for _ in range(8):
        hashes ^= rest & _OCTET
        hashes *= _PRIME
        rest >>= _EIGHT
    return np.abs(hashes.view(np.int64))


def make_keys(numbers: Numbers, *, hashed: bool, padding: int = 1) -> list[bytes]:
    """The keys of records with these numbers, in their order.

    `padding` is YCSB's ``zeropadding``: the number has at least so many digits.
    """
    values = (fnv_hashes(numbers) if hashed else numbers).tolist()
    if padding > 1:
        return [b"user%0*d" % (padding, value) for value in values]
    return [b"user%d" % value for value in values]


def of_store(keys: list[bytes], shard: int, stores: int) -> NDArray[np.bool_]:
    """Those of the keys that the store number `shard` of `stores` holds, by `hash_placement`."""
    sums = np.fromiter(map(crc32, keys), dtype=np.int64, count=len(keys))
    return np.asarray(sums % stores == shard)
