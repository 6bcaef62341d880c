"""The compiled core under libFuzzer: any bytes, with AddressSanitizer and UBSan looking on."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.paths import DATA, ROOT

CORE = ROOT / "storewise" / "ssearch" / "parse" / "core"
TARGET = ROOT / "tests" / "support" / "fuzz" / "core.c"
#: Of a run; STOREWISE_FUZZ_SECONDS says for how long before a release.
SECONDS = int(os.environ.get("STOREWISE_FUZZ_SECONDS", "60"))
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
#: What an output must have for the target's layouts (its first byte: see core.c).
SEEDS = {"ssearch36.m10": 0, "ssearch36_nostats.m10": 1, "lalign36_dna.m10": 2}


def seeds(directory: Path) -> None:
    """A few real alignments for each layout."""
    for name, choice in SEEDS.items():
        content = (DATA / name).read_bytes()
        first = re.search(rb"^>>(?!>)", content, re.M)
        assert first is not None
        alignments = re.split(rb"(?=^>>)", content[first.start() :], flags=re.M)
        for number, count in enumerate((1, 2, 5)):
            text = b"".join(alignments[:count]) + b">>>"
            (directory / f"{name}.{number}").write_bytes(bytes([choice, 7]) + text)


@pytest.mark.slow
@pytest.mark.needs("clang")
def test_no_bytes_make_the_core_read_or_write_where_it_must_not(tmp_path: Path) -> None:
    program = tmp_path / "fuzz"
    subprocess.run(
        [
            "clang", "-O1", "-g", SANITIZERS, "-fno-sanitize-recover=all", "-I", CORE,
            TARGET, CORE / "alignments.c", CORE / "bson.c", "-lm", "-o", program,
        ],
        check=True,
    )  # fmt: skip
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    seeds(corpus)
    done = subprocess.run(
        [
            program, f"-max_total_time={SECONDS}", "-max_len=20000", "-timeout=10",
            "-print_final_stats=1", corpus,
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    taken = re.search(r"alignments taken: (\d+)", done.stderr)
    assert runs is not None and taken is not None, done.stderr[-6000:]
    print(f"{runs[1]} inputs, {done.stderr.count('NEW')} with new paths, {taken[1]} alignments")
    assert int(taken[1]) > len(SEEDS), "the seeds are not what the target's layouts are"
