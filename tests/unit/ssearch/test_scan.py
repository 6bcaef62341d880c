"""Many files: each read once in bounded chunks; those that change or cannot be read are named."""

import os
import tracemalloc
from pathlib import Path

import pytest
from support.inputs.ssearch import content
from support.paths import DATA, SAMPLE

from storewise.errors import InputError
from storewise.s3.uri import Stat
from storewise.ssearch.inputs import scan
from storewise.ssearch.inputs.scan import ScanResult, scan_file, scan_files, status_of
from storewise.ssearch.parse import remote
from storewise.ssearch.parse.remote import Listed
from storewise.ssearch.parse.stream import content_digest

RESULT = ScanResult(bytes(16), 1, 2, 3, "m10", ("one", "two"))


def test_a_file_is_counted_and_digested_in_one_pass():
    result = scan_file(DATA / "ssearch36.m10")
    assert result == (content_digest(DATA / "ssearch36.m10"), 3, 36, 36, "m10", ())

    warning = scan_file(DATA / "ssearch36_scores.m10").warnings[0]
    assert warning.startswith("2 of 3 queries have best scores and no alignments")


def test_memory_is_bounded(tmp_path):
    path = tmp_path / "large.m10"
    one = content(SAMPLE / "queries_01__arabidopsis.m10.gz")
    with path.open("wb") as out:
        for _ in range(40):
            out.write(one)
    assert path.stat().st_size > 20e6
    tracemalloc.start()
    scan_file(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


@pytest.fixture
def scanned(monkeypatch):
    """The paths that were scanned; those with "bad" in their name are bad."""
    seen = []

    def scan_file(path, input_format, *, listed):
        seen.append(path)
        assert listed.path == path
        if "bad" in path:
            raise InputError(path, "is bad", line=3, offset=40)
        return RESULT

    monkeypatch.setattr(scan, "scan_file", scan_file)
    return seen


def made(directory, sizes, bad=-1):
    paths = []
    for number, size in enumerate(sizes):
        name = f"{number:03}{'bad' if number == bad else ''}"
        paths.append(str(directory / name))
        Path(paths[-1]).write_bytes(bytes(size))
    return paths


@pytest.mark.parametrize(
    ("sizes", "processes", "most_files", "most_bytes", "done"),
    [
        ([10] * 9, 1, 512, 1000, [3, 6, 9]),
        ([10] * 9, 0, 512, 1000, [3, 6, 9]),
        ([10] * 9, 1, 2, 1000, [2, 4, 6, 8, 9]),
        ([10] * 8, 1, 2, 1000, [2, 4, 6, 8]),
        # A chunk ends with the file that reaches the bytes, and the next begins from nothing.
        ([60, 39, 1, 99, 1, 100, 0, 0, 0, 5, 5, 5], 1, 512, 100, [3, 5, 6, 9, 12]),
        ([0], 1, 512, 100, [1]),
        ([], 1, 512, 100, []),
    ],
)
def test_each_file_is_scanned_once_in_bounded_chunks(
    tmp_path, monkeypatch, scanned, sizes, processes, most_files, most_bytes, done
):
    monkeypatch.setattr(scan, "MAX_CHUNK_FILES", most_files)
    monkeypatch.setattr(scan, "MAX_CHUNK_BYTES", most_bytes)
    paths = made(tmp_path, sizes, bad=4)
    files, missing = status_of(paths)
    assert missing == []
    told, added = [], []

    def progress(*now):
        told.append(now)

    bad = scan_files(files, added.extend, processes=processes, progress=progress)
    assert scanned == paths
    rows = [row for row in zip(paths, sizes, strict=True) if "bad" not in row[0]]
    assert [row[:2] for row in added] == rows
    assert told == [(n, len(sizes), sum(sizes[:n]), sum(sizes)) for n in done]
    for row in bad:
        assert row == {
            **{"path": paths[4], "bytes": sizes[4], "error_line": 3, "error_offset": 40},
            "mtime_ns": Path(paths[4]).stat().st_mtime_ns,
            "error": f"{paths[4]}, line 3 (byte 40): is bad",
        }
    assert len(bad) == (len(sizes) > 4)


def test_a_row_is_what_was_before_the_scan(tmp_path, monkeypatch, scanned):
    paths = made(tmp_path, [5, 6, 7])
    os.utime(paths[0], ns=(1, 12_345))
    files, _ = status_of(paths)
    rows = []
    scan_files(files, rows.extend, processes=1)
    assert rows[0] == (paths[0], 5, 12_345, bytes(16), 1, 2, 3, "m10", "one; two")
    scan_one = scan.scan_file

    def changing(path, *how, **more):
        if path == paths[0]:  # of the same size, at another time
            os.utime(path, ns=(1, 12_346))
        elif path == paths[1]:
            Path(path).unlink()
        return scan_one(path, *how, **more)

    monkeypatch.setattr(scan, "scan_file", changing)
    rows.clear()
    bad = scan_files(files, rows.extend, processes=1)
    assert [row[0] for row in rows] == paths[2:]
    assert [row["path"] for row in bad] == paths[:2]
    assert "changed while it was read" in bad[0]["error"] and bad[0]["mtime_ns"] == 12_346
    assert "No such file" in bad[1]["error"] and (bad[1]["bytes"], bad[1]["mtime_ns"]) == (0, 0)


def test_what_the_file_system_says(tmp_path, monkeypatch):
    (path,) = made(tmp_path, [5])
    os.utime(path, ns=(1, 77))
    there, gone = "s3://b/there", "s3://b/gone"
    monkeypatch.setattr(remote, "stats", lambda paths: {there: Stat(9, 88, "")})
    none, pipe = str(tmp_path / "none"), str(tmp_path / "pipe")
    os.mkfifo(pipe)
    good, missing = status_of([none, path, gone, pipe, there])
    assert good == [Listed(path, 5, 77), Listed(there, 9, 88)]
    assert [(row["path"], row["error_line"], row["error"]) for row in missing] == [
        (none, None, f"{none}: the file cannot be read: No such file or directory"),
        (gone, None, f"{gone}: there is no such object"),
        (pipe, None, f"{pipe}: not a regular file (a directory, a pipe or a device)"),
    ]


def test_objects_are_fetched_ahead(monkeypatch, scanned):
    """An object's row is what was listed: it is not asked for again."""
    objects = {f"s3://b/{n}": Stat(10 + int(n[0]), 20 + int(n[0]), "") for n in ("0", "1", "2bad")}
    monkeypatch.setattr(remote, "stats", lambda paths: objects)
    ahead = []

    class Fetched:
        def __init__(self, files):
            ahead.append([file.path for file in files])

        def __enter__(self): ...

        def __exit__(self, *_): ...

    monkeypatch.setattr(scan, "fetched_ahead", Fetched)
    files, _ = status_of(sorted(objects))
    rows = []
    (bad,) = scan_files(files, rows.extend, processes=1)
    assert [row[:3] for row in rows] == [(f"s3://b/{n}", 10 + n, 20 + n) for n in range(2)]
    assert (bad["path"], bad["bytes"], bad["mtime_ns"]) == ("s3://b/2bad", 12, 22)
    assert [path for files in ahead for path in files] == sorted(objects)
