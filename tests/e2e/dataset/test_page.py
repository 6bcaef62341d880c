"""The examples of docs/dataset.md print what the page says."""

import re
import subprocess
import sys

import pytest
from support.commands import storewise
from support.paths import ROOT, SAMPLE

PAGE = (ROOT / "docs" / "dataset.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("page")
    done = storewise("convert", f"{SAMPLE}/*.m10.*", "--to", "parquet", "-o", place / "dataset")
    assert done.returncode == 0 and "73,455 documents in 4 files" in done.stderr
    return place


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example(place, number):
    code, printed = EXAMPLES[number]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True
    )
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    assert lines == printed.strip().splitlines()
