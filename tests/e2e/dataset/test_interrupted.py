"""A conversion in processes of its own: killed, and where there is no room or no right."""

import signal
import subprocess
import sys

import psutil
import pytest
from support.commands import storewise
from support.inputs.datasets import check_order, expected, files_of, inputs_of, stored
from support.paths import SAMPLE
from support.waiting import wait_until

from storewise.documents import KINDS

INPUTS = sorted(map(str, SAMPLE.glob("*.m10*")))
#: Small chunks, so that there are many.
SCRIPT = """
import sys
from storewise.dataset import conversion
from storewise.cli.main import main

conversion.chunk_bytes = lambda text, processes: 1_000_000
main()
"""


@pytest.fixture
def convert(tmp_path):
    """Starts a conversion of the whole sample with two processes."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    names = tmp_path / "names.list"
    names.write_text("".join(f"{path}\n" for path in INPUTS))
    command = [sys.executable, str(script), "convert", f"@{names}", "--to", "parquet"]
    command += ["-o", str(tmp_path / "set"), "--jobs", "2", "--partitions", "2"]
    command += ["--by", "query", "--target-size", "40kB"]

    def start():
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    return start


@pytest.mark.slow
def test_killed_twice_and_finished(tmp_path, convert):
    root = tmp_path / "set"
    work = root / ".work" / "whole"
    steps = [
        lambda: list(work.glob("chunks/*/done.json")),
        lambda: list(root.glob("inputs/*.parquet")) and list(work.glob("chunks/*")),
    ]
    for reached in steps:
        with convert() as process:
            wait_until(reached, 60, "the work that is to be killed")
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert not psutil.wait_procs(children, timeout=20)[1]
        assert work.exists()
    with convert() as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert stored(root) == expected(INPUTS)
    check_order(root, "query")
    assert [row["path"] for row in inputs_of(root)] == INPUTS
    assert max(row["round"] for row in inputs_of(root)) > 1
    assert not (root / ".work").exists()
    documents = sum(map(len, stored(root).values()))
    files = sum(len(files_of(root, kind)) for kind in KINDS)
    assert f"{root}: {documents:,} documents in {files} files" in said


def test_a_full_disk(small_disk):
    place = small_disk("500k")
    done = storewise("convert", *INPUTS, "--to", "parquet", "-o", place / "set", "--jobs", "1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        f"storewise: {place}/set: cannot be written: No space left on device"
    )
    subprocess.run(["mount", "-o", "remount,size=20m", place], check=True)
    done = storewise("convert", *INPUTS, "--to", "parquet", "-o", place / "set", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert stored(place / "set") == expected(INPUTS)


def test_a_place_that_cannot_be_written(small_disk):
    place = small_disk("1m", "ro")
    done = storewise("convert", INPUTS[0], "--to", "parquet", "-o", place / "set")
    assert done.returncode == 2
    assert "set: cannot be written: Read-only file system" in done.stderr
    assert done.stderr.count("\n") == 1
