"""The manifest built in several processes: as in one, also when it is killed."""

import signal
import subprocess
import sys

import psutil
import pytest
from support.paths import DATA
from support.waiting import exit_code, wait_until

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.table import read_table

_BUILD = """
import os, sys
from pathlib import Path
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs
place = Path(sys.argv[1])

def progress(done, total, done_bytes, total_bytes):
    print(done, flush=True)
    if done >= total // 2:
        sys.stdin.read()

build_manifest(list_inputs([place / "in"]), place / "m.parquet", processes=2, progress=progress)
"""


def test_resumes_after_kill_and_leaves_no_process(tmp_path):
    (tmp_path / "in").mkdir()
    content = (DATA / "ssearch36_nohits.m10").read_bytes()
    for index in range(40):
        changed = content.replace(b"\n", b" copy %d\n" % index, 1)
        (tmp_path / "in" / f"{index:02}.m10").write_bytes(changed)
    command = [sys.executable, "-c", _BUILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as build:
        done = 0
        while done < 20:
            done = int(build.stdout.readline())
        children = psutil.Process(build.pid).children(recursive=True)
        assert children
        # A second build with the same cache is refused while this one lives.
        paths, out = list_inputs([tmp_path / "in"]), tmp_path / "m.parquet"
        with pytest.raises(StorewiseError, match="another manifest is being built"):
            build_manifest(paths, out)
        build.send_signal(signal.SIGKILL)
        exit_code(build, 30)
    wait_until(
        lambda: all(not c.is_running() or c.status() == psutil.STATUS_ZOMBIE for c in children),
        30,
        "the end of all workers of a build that was killed",
    )
    assert not out.exists()
    summary = build_manifest(paths, out)
    assert summary.reused >= done
    assert summary.digested == 40 - summary.reused and summary.files == 40
    # Two processes find what one does, also what is bad.
    (tmp_path / "in" / "bad.m10").write_text("nothing")
    told, messages = [], []
    for processes in (1, 2):
        other = tmp_path / str(processes) / "m.parquet"
        with pytest.raises(InputError, match=r"bad\.m10, line 1") as caught:
            build_manifest(
                [*paths, str(tmp_path / "in" / "bad.m10")],
                other,
                processes=processes,
                progress=lambda *now: told.append(now),
            )
        assert told == sorted(told) and told.pop()[:2] == (41, 41)
        told.clear()
        messages.append(str(caught.value))
        assert build_manifest(paths, other, processes=processes).digested == 0
        assert read_table(other, "manifest").equals(read_table(out, "manifest"))
    assert messages[0] == messages[1]
