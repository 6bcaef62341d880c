"""Where the scanner and the reader must agree."""

from __future__ import annotations

from support.inputs.ssearch import outcome

from storewise.ssearch.inputs.scan import Scanner, ScanResult


def scan(content: bytes, piece: int = 1 << 20) -> ScanResult:
    scanner = Scanner("data")
    for start in range(0, len(content), piece):
        scanner.feed(content[start : start + piece])
    return scanner.finish()


def agreed(content: bytes, piece: int = 1 << 20) -> tuple[int, int, int] | str:
    """Queries, hits and alignments on which both readers and the scanner agree, or the error of
    both readers. The scanner may pass what only a parse can see; it never refuses what parses."""
    result = outcome(content, mode="reference")
    assert outcome(content, mode="fast") == result
    if result[0] == "error":
        return str(result[3])
    counts = result[1]
    scanned = scan(content, piece)
    assert (scanned.queries, scanned.hits, scanned.alignments) == (
        counts.queries,
        counts.hits,
        counts.alignments,
    )
    return counts.queries, counts.hits, counts.alignments
