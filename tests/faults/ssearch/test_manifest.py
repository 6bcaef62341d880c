"""The manifest: what is listed, digested once, resumed, merged, quarantined."""

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
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.inputs.table import rows_of

# --- building ----------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2])
def test_rows_are_those_of_the_scan(files: Path, processes: int) -> None:
    out = files.parent / "manifest.parquet"
    message: list[tuple[int, int, int, int]] = []
    summary = build_manifest(
        list_inputs([files]), out, processes=processes, progress=lambda *now: message.append(now)
    )
    rows = list(rows_of(load_manifest(out)))
    assert [Path(row.path).name for row in rows] == ["a.m10", "b.m10", "c.m10", "d.m10"]
    for row in rows:
        result = scan_file(row.path)
        assert (row.digest, row.queries, row.hits, row.alignments, row.documents) == (
            result.digest,
            result.queries,
            result.hits,
            result.alignments,
            result.documents,
        )
        assert row.bytes == Path(row.path).stat().st_size
        assert row.mtime_ns == Path(row.path).stat().st_mtime_ns
    assert summary.files == summary.digested == 4
    assert summary.documents == sum(row.documents or 0 for row in rows)
    size = sum(row.bytes for row in rows)
    assert message[-1] == (4, 4, size, size)
    assert sorted(message) == message


@pytest.mark.parametrize("processes", [1, 2])
def test_fail_names_the_first_and_how_many(with_bad: Path, processes: int) -> None:
    out = with_bad.parent / "manifest.parquet"
    paths = list_inputs([with_bad])
    with pytest.raises(InputError) as caught:
        build_manifest(paths, out, processes=processes)
    error = caught.value
    assert error.path.endswith("a0.m10") and error.line and error.offset
    assert str(error).count("a0.m10") == 1
    assert "not complete" in str(error) and "3 of 7 files are bad" in str(error)
    assert not out.exists()
    # The good ones are not digested again once the bad are gone.
    for name in ("a0.m10", "z.m10", "zz.m10"):
        (with_bad / name).unlink()
    assert build_manifest(list_inputs([with_bad]), out).digested == 0


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
