"""Outputs that `ssearch36` and its family write now; memory that does not grow with the file."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from support.inputs.ssearch import DATA, outcome, read

from storewise.errors import InputError

PROGRAMS = {
    "ssearch36": ["-Q", "-H", "-W", "0", "-E", "1000 1.0"],
    "fasta36": ["-q", "-E", "10 0.1"],
    "lalign36": ["-q"],
}


@pytest.mark.needs("ssearch36")
@pytest.mark.parametrize("program", PROGRAMS)
def test_fresh_outputs(program: str, tmp_path: Path) -> None:
    first = "".join(chr(65 + (i * i * 7 + i // 3) % 4) for i in range(400))
    bases = first.translate(str.maketrans("ABCD", "ACGT"))
    (tmp_path / "q.fa").write_text(
        f">one >>> ; sw_score: 999 é\n{bases[:90]}\n>one >>>2 twin\n{bases[120:230]}\n"
    )
    (tmp_path / "l.fa").write_text(
        f">hit>1 gene:G1 ; x\n{bases}\n>hit2\tchromosome:A:2:1:2\n{bases[::-1]}\n"
        f">hit3 same\n{bases[60:200]}{bases[:77]}\n"
    )
    command = [program, "-m", "10", *PROGRAMS[program], "q.fa", "l.fa"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    expected = outcome(output, mode="reference")
    assert expected[0] == "documents" and expected[1].queries == 2 and expected[1].alignments > 2
    for encoding in ("dict", "bson"):
        assert expected == outcome(output, mode="fast", encoding=encoding)


@pytest.mark.needs("ssearch36")
def test_a_missing_library_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "q.fa").write_text(">q\nACGTACGTACGTTTGACAGT\n")
    command = ["ssearch36", "-Q", "-m", "10", "q.fa", "missing.fa"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    with pytest.raises(InputError, match=r"library|complete|ends too early"):
        read(run.stdout)


MEASURE = """
import sys
from pathlib import Path
from storewise.ssearch.parse.reader import DocumentReader
reader = DocumentReader(sys.argv[1], bytes(7), encoding=sys.argv[2])
documents = sum(len(batch) for batch in reader)
# Not ru_maxrss, which a child inherits from the process that forked it.
status = Path("/proc/self/status").read_text()
print(documents, status.split("VmHWM:")[1].split()[0])
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """250 MB of one query with hits, gzip as fast as it gets; and how many documents it has."""
    content = (DATA / "ssearch36.m10").read_bytes()
    start = content.index(b"\n>>pGT875") + 1
    stop = content.index(b"\n\n>>><<<") + 1
    hits = content[start:stop]
    repeats = 250_000_000 // len(hits)
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
def test_memory_does_not_grow_with_the_file(encoding: str, large: tuple[Path, int]) -> None:
    """Under 150 MB of memory."""
    path, expected = large
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), encoding],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    documents, peak = map(int, run.stdout.split())
    assert documents == expected
    assert peak * 1024 < 150_000_000
