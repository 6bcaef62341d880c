"""A sample of a file's blocks, from which a digest is made where reading all takes too long."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import random
from pathlib import Path
from typing import NamedTuple

from storewise.documents import FULL_DIGEST_BYTES
from storewise.s3.uri import Wanted, is_remote
from storewise.ssearch.parse.remote import as_input
from storewise.ssearch.parse.stream import Source, unreadable

#: The first and last block are read and this many between them.
SAMPLE_BLOCKS = 14
SAMPLE_BLOCK_BYTES = 4096
#: Read at once from the start of an object, to decompress its head: more than a zstd block
#: (RFC 8878, 3.1.1.2: 128 KiB).
_REMOTE_HEAD_BYTES = 256 << 10


class Sample(NamedTuple):
    """Stored size and blocks of a file; its head can be decompressed from `start`."""

    size: int
    blocks: list[bytes]
    start: Source

    def digest(self) -> bytes:
        """16 bytes that stand for the file."""
        digest = hashlib.blake2b(
            self.size.to_bytes(8, "big"), digest_size=FULL_DIGEST_BYTES, person=b"sampled"
        )
        digest.update(b"".join(self.blocks))
        return digest.digest()


def sample_of(path: Path | str, seed: int, listed: Wanted | None = None) -> Sample | None:
    """The sample of a file, or of an object as it was `listed`; None where it would be the whole.

    Raises InputError for a file that cannot be read, or an object that is not there or another.
    """

    def places(size: int) -> list[tuple[int, int]]:
        last = size - SAMPLE_BLOCK_BYTES
        if size <= (SAMPLE_BLOCKS + 2) * SAMPLE_BLOCK_BYTES:
            return []
        starts = [0, *(int(share * last) for share in _places(seed)), last]
        return [(start, SAMPLE_BLOCK_BYTES) for start in starts]

    if not is_remote(path):
        try:
            with Path(path).open("rb", buffering=0) as stream:
                size = os.fstat(stream.fileno()).st_size
                blocks = [os.pread(stream.fileno(), n, start) for start, n in places(size)]
        except OSError as error:
            raise unreadable(str(path), error) from error
        return Sample(size, blocks, path) if blocks else None
    from storewise.s3.stream import blocks as blocks_of

    def longer(size: int) -> list[tuple[int, int]]:
        """The first one is long enough to be decompressed by itself."""
        return [(0, min(_REMOTE_HEAD_BYTES, size)), *places(size)[1:]] if places(size) else []

    with as_input(str(path)):
        size, blocks = blocks_of(str(path), longer, listed)
    if not blocks:
        return None
    head = io.BytesIO(blocks[0])
    head.name = str(path)  # what messages call it
    blocks[0] = blocks[0][:SAMPLE_BLOCK_BYTES]
    return Sample(size, blocks, head)


@functools.cache
def _places(seed: int) -> tuple[float, ...]:
    """Where the sampled blocks start, as ascending shares of the file."""
    draw = random.Random(seed)
    return tuple(sorted(draw.random() for _ in range(SAMPLE_BLOCKS)))
