"""From FASTA to complete outputs of `ssearch36`, and every way in which that fails."""

import gzip
import json
import signal
import subprocess
import sys

import psutil
import pytest
import zstandard
from support.waiting import exit_code, wait_until

from storewise.errors import InputError, SearchError
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.search.ssearch36 import record_path, run_search

pytestmark = pytest.mark.needs("ssearch36")

QUERY = ">q1 [gene=a] first\nACGTTGCAAGGCTTACGATCGATTACGG\n>q2 second\nTTGACCATGCAGGATCCATAGGCA\n"
LIBRARY = "".join(
    f">lib{i} [gene=g{i}]\n{'ACGTTGCAAGGCTTACGATCGATTACGGTTGACCATG'[i:] * 3}\n" for i in range(8)
)


@pytest.fixture
def query(tmp_path):
    (tmp_path / "query.fa").write_text(QUERY)
    return tmp_path / "query.fa"


@pytest.fixture
def library(tmp_path):
    (tmp_path / "library.fa").write_text(LIBRARY)
    return tmp_path / "library.fa"


def script(path, text):
    """A program in the place of ssearch36."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def leftovers(directory):
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("name", ["out.m10", "out.m10.gz", "out.m10.zst"])
def test_search_gives_a_complete_output_and_its_record(tmp_path, query, library, name):
    output = tmp_path / name
    record = run_search(query, library, output)
    result = scan_file(output)
    assert (result.queries, result.alignments) == (2, record.alignments)
    assert record.alignments == 2 * 8 * 2
    assert record.library_sequences == 8
    assert record.version.startswith("36.")
    assert record.command == ("ssearch36 -Q -H -m 10 -W 0 -E '1000000000 -1' query.fa library.fa")
    kept = json.loads(record_path(output).read_text())
    assert kept["command"] == record.command and kept["queries"] == 2
    head = output.read_bytes()[:4]
    assert head.startswith({"m10": b"# ss", ".gz": b"\x1f\x8b"}.get(name[-3:], b"\x28\xb5\x2f\xfd"))
    assert leftovers(tmp_path) == []


def test_compressed_inputs_and_awkward_names(tmp_path):
    query = tmp_path / "my query @1.fa.gz"
    query.write_bytes(gzip.compress(QUERY.encode()))
    library = tmp_path / "lib %2 [x].fa.zst"
    library.write_bytes(zstandard.ZstdCompressor().compress(LIBRARY.encode()))
    record = run_search(query, library, tmp_path / "out.m10", threads=1)
    assert record.alignments == 32
    assert "-T 1" in record.command
    assert record.query == query.name


@pytest.mark.parametrize(
    "target, text, error, message",
    [
        ("library", None, InputError, "library.fa: the file cannot be read: No such file"),
        ("query", None, InputError, "query.fa: the file cannot be read: No such file"),
        ("library", "", InputError, "library.fa: the library file is empty"),
        ("query", "\n", InputError, "query.fa: the query file is empty"),
        ("library", "\nACGT\n", InputError, "library.fa, line 2: the library file is not FASTA"),
        ("library", ">only a header\n", SearchError, "no sequence in the library"),
        ("query", ">only a header\n", SearchError, "exit status 1"),
    ],
)
def test_bad_inputs_are_errors_not_outputs(tmp_path, query, library, target, text, error, message):
    path = query if target == "query" else library
    path.unlink() if text is None else path.write_text(text)
    before = {p.name for p in tmp_path.iterdir()}
    with pytest.raises(error, match=message):
        run_search(query, library, tmp_path / "out.m10.gz")
    assert {p.name for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "body, message",
    [
        ("echo 'boom: bad matrix' >&2; exit 3", r"exit status 3\n  boom: bad matrix"),
        ("kill -9 $$", r"killed by signal 9, SIGKILL \(out of memory\?\)"),
        ("kill -11 $$", "killed by signal 11, SIGSEGV"),
        ("exit 0", "no complete -m 10 output: the file is empty"),
        ("echo hello", "no complete -m 10 output: this is not an output of ssearch36"),
        ("head -n 40 {whole}; echo 'disk trouble' >&2", r"not complete.*(?s:.)*\n  disk trouble"),
    ],
)
def test_failing_programs(tmp_path, query, library, body, message):
    if "{whole}" in body:
        run_search(query, library, tmp_path / "whole.m10")
        body = body.replace("{whole}", str(tmp_path / "whole.m10"))
    program = script(tmp_path / "failing", body)
    with pytest.raises(SearchError, match=message):
        run_search(query, library, tmp_path / "out.m10", program=program)
    assert not (tmp_path / "out.m10").exists()
    assert not record_path(tmp_path / "out.m10").exists()
    assert leftovers(tmp_path) == []


def test_a_program_that_is_not_there_and_an_output_that_is_none(tmp_path, query, library):
    with pytest.raises(SearchError, match=r"ssearch99 is not installed.*fasta3"):
        run_search(query, library, tmp_path / "out.m10", program="ssearch99")
    with pytest.raises(SearchError, match="-m 10"):
        run_search(query, library, tmp_path / "out.m10", options=["-Q", "-H"])


_RUN = """
import sys
from pathlib import Path
from storewise.ssearch.search.ssearch36 import run_search
run_search(*map(Path, sys.argv[1:4]), program=sys.argv[4])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_signals_leave_no_process_and_no_output(tmp_path, query, library, number):
    program = script(tmp_path / "endless", "echo $$ > ../../pid; echo '# begun'; exec sleep 300")
    output = tmp_path / "out.m10"
    arguments = [sys.executable, "-c", _RUN, str(query), str(library), str(output), program]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as runner:
        pid_file = tmp_path / "pid"
        wait_until(
            lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), 30, "the program"
        )
        child = psutil.Process(int(pid_file.read_text()))
        runner.send_signal(number)
        assert exit_code(runner, 30) != 0
    wait_until(
        lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 30, "its end"
    )
    assert not output.exists()
    if number is not signal.SIGKILL:
        assert leftovers(tmp_path) == []
        return
    # Nothing can tidy up after SIGKILL; the next search does.
    run_search(query, library, output)
    assert scan_file(output).queries == 2
    assert leftovers(tmp_path) == []
