"""Checksums of files as S3 keeps them with objects.

A file up to `PART` bytes goes up in one request and has the SHA-256 of its content. A larger one
goes up in parts, each with its own; S3 then gives the SHA-256 of the parts' digests, with a dash
and their number (Amazon S3 User Guide, "Checking object integrity": composite checksums). Both are
made in one pass here.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from s3transfer.utils import ChunksizeAdjuster

#: Bytes of a part, and of the largest file that goes up in one request; whole `_BLOCK`s.
PART = 16 << 20
_BLOCK = 1 << 20


def part_bytes(size: int) -> int:
    """Bytes of each part but the last, as s3transfer cuts a file of `size` bytes."""
    return int(ChunksizeAdjuster().adjust_chunksize(PART, size))


def as_base64(digest: bytes) -> str:
    """A digest as S3's requests and answers have it."""
    return base64.b64encode(digest).decode()


@dataclass(frozen=True, slots=True)
class Digest:
    """Size in bytes, SHA-256 (hex) and time of modification (ns since 1970) of a file; `parts` are
    the digests of its parts, none where it goes up in one request."""

    size: int
    sha256: str
    modified_ns: int
    parts: tuple[bytes, ...]

    def fits(self, checksum: str | None) -> bool:
        """Whether S3's checksum is that of this content, uploaded by us (some servers leave the
        number of parts out)."""
        whole = hashlib.sha256(b"".join(self.parts)).digest()
        expected = as_base64(whole if self.parts else bytes.fromhex(self.sha256))
        return checksum is not None and checksum.split("-")[0] == expected


def digest_file(path: Path) -> Digest:
    """Reads a file once; OSError where that cannot be done."""
    whole, parts, size = hashlib.sha256(), [], 0
    with path.open("rb") as file:
        # That of the open file: of a path NFS may tell a time that is out of date.
        status = os.fstat(file.fileno())
        length = part_bytes(status.st_size)
        while block := file.read(_BLOCK):
            if size % length == 0:
                parts.append(hashlib.sha256())
            whole.update(block)
            parts[-1].update(block)
            size += len(block)
    several = tuple(part.digest() for part in parts) if size > PART else ()
    return Digest(size, whole.hexdigest(), status.st_mtime_ns, several)
