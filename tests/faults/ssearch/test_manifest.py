"""The manifest built in several processes: as in one, also when it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.inputs.manifests import small
from support.waiting import exit_code, wait_until

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs.manifest import build_manifest, load_manifest
from storewise.ssearch.inputs.paths import list_inputs


def test_two_processes_find_what_one_does(with_bad: Path) -> None:
    paths = list_inputs([with_bad])
    told: list[tuple[int, int, int, int]] = []
    messages, tables = [], []
    for processes in (1, 2):
        out = with_bad.parent / str(processes) / "manifest.parquet"
        with pytest.raises(InputError) as caught:
            build_manifest(paths, out, processes=processes, progress=lambda *now: told.append(now))
        messages.append(str(caught.value))
        assert told == sorted(told) and told.pop()[:2] == (6, 6)
        told.clear()
        assert not out.exists()
        # The good ones are not digested again.
        done = build_manifest(paths, out, processes=processes, on_bad_input="quarantine")
        assert (done.digested, done.files, len(done.bad)) == (2, 4, 3)
        tables.append(load_manifest(out))
    assert messages[0] == messages[1] and "3 of 7 files are bad" in messages[0]
    assert tables[0].equals(tables[1])


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


def test_resumes_after_kill_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for index in range(40):
        (tmp_path / "in" / f"{index:02}.m10").write_bytes(small(str(index)))
    command = [sys.executable, "-c", _BUILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as build:
        assert build.stdout is not None
        done = 0
        while done < 20:
            done = int(build.stdout.readline())
        children = psutil.Process(build.pid).children(recursive=True)
        assert children
        # A second build with the same cache is refused while this one lives.
        paths = list_inputs([tmp_path / "in"])
        with pytest.raises(StorewiseError, match="another manifest is being built"):
            build_manifest(paths, tmp_path / "m.parquet")
        build.send_signal(signal.SIGKILL)
        exit_code(build, 30)
    wait_until(
        lambda: all(not c.is_running() or c.status() == psutil.STATUS_ZOMBIE for c in children),
        30,
        "the end of all workers of a build that was killed",
    )
    assert not (tmp_path / "m.parquet").exists()
    summary = build_manifest(paths, tmp_path / "m.parquet")
    assert summary.files == 40
    assert summary.reused >= done
    assert summary.digested == 40 - summary.reused
