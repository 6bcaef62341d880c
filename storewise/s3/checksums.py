"""Checksums of files as S3 keeps them with objects.

A file up to `PART` bytes goes up in one request and has the SHA-256 of its content. A larger one
goes up in parts, each with its own; S3 then tells the SHA-256 of the parts' digests, with a dash
and their number (Amazon S3 User Guide, "Checking object integrity": composite checksums). Both are
made in one pass here.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

#: Bytes of a part, and of the largest file that goes up in one request. S3 takes 5 MiB and more.
PART = 16 << 20
#: Parts that one object may have.
MOST_PARTS = 10_000
_BLOCK = 1 << 20


def part_bytes(size: int) -> int:
    """Bytes of each part of a file of `size` bytes but the last; whole MiB. It depends on nothing
    else, so that a later process finds the same parts."""
    least = -(-size // MOST_PARTS)
    return max(PART, -(-least // _BLOCK) * _BLOCK)


def as_base64(digest: bytes) -> str:
    """A digest as S3's requests and answers have it."""
    return base64.b64encode(digest).decode()


@dataclass(frozen=True, slots=True)
class Digest:
    """Size in bytes and SHA-256 (hex) of a file; `parts` are the digests of its parts, none where
    it goes up in one request."""

    size: int
    sha256: str
    parts: tuple[bytes, ...] = ()

    @property
    def checksum(self) -> str:
        """What S3 tells of an object with this content that we have uploaded."""
        if not self.parts:
            return as_base64(bytes.fromhex(self.sha256))
        return f"{as_base64(hashlib.sha256(b''.join(self.parts)).digest())}-{len(self.parts)}"

    def is_told_by(self, checksum: str | None) -> bool:
        """Whether S3's checksum is of this content (some servers leave the number of parts out)."""
        return checksum is not None and checksum.split("-")[0] == self.checksum.split("-")[0]


def digest_file(path: Path) -> Digest:
    """Reads a file once; OSError where that cannot be done."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        whole, read, parts = hashlib.sha256(), 0, []
        length = part_bytes(size)
        part, left = hashlib.sha256(), length
        while block := file.read(min(_BLOCK, left)):
            read += len(block)
            whole.update(block)
            if size > length:
                part.update(block)
                left -= len(block)
                if left == 0:
                    parts.append(part.digest())
                    part, left = hashlib.sha256(), length
        if size > length and left < length:
            parts.append(part.digest())
    return Digest(read, whole.hexdigest(), tuple(parts))
