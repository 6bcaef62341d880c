"""Memory that does not grow with the file."""

import gzip
import subprocess
import sys

import pytest
from support.inputs.ssearch import DATA

MEASURE = """
import sys
from pathlib import Path
from storewise.ssearch.reader import DocumentReader
reader = DocumentReader(sys.argv[1], bytes(7), encoding=sys.argv[2])
documents = sum(len(batch) for batch in reader)
# Not ru_maxrss, which a child inherits from the process that forked it.
status = Path("/proc/self/status").read_text()
print(documents, status.split("VmHWM:")[1].split()[0])
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """100 MB of one query with hits, gzip as fast as it gets; and how many documents it has."""
    content = (DATA / "ssearch36.m10").read_bytes()
    start = content.index(b"\n>>pGT875") + 1
    stop = content.index(b"\n\n>>><<<") + 1
    hits = content[start:stop]
    repeats = 100_000_000 // len(hits)
    end = content.index(b"\n>>>///")
    begin = content.index(b"\n  2>>>")
    path = tmp_path_factory.mktemp("large") / "large.m10.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content[:start])
        block = hits * 100
        for _ in range(repeats // 100):
            file.write(block)
        file.write(content[stop:begin] + content[end:].replace(b"3 query", b"1 query"))
    return path, 1 + 3 * hits.count(b"; sw_overlap") * (repeats // 100) * 100


@pytest.mark.parametrize("encoding", ["dict", "bson"])
def test_memory_does_not_grow_with_the_file(encoding, large):
    """Under 150 MB of memory."""
    path, expected = large
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), encoding],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    documents, peak = map(int, run.stdout.split())
    assert documents == expected
    assert peak * 1024 < 150_000_000
