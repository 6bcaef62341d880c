"""Worker jobs as real processes with real stores: what they measure and write."""

import logging
import shutil
import sqlite3
import subprocess
import sys

import pytest
from support import driving
from support.driving import make_inputs, rows, start, total, trial, verify
from support.waiting import exit_code

from storewise.errors import StorewiseError
from storewise.metrics.hdr import merge_logs
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.shards import load_shards, write_shards
from storewise.workloads.alignments.stored_files import StoredFiles

#: One more in CI; whole studies measure them all.
OTHERS = {"duckdb": "slow", "null": "all_cells", "chdb": "all_cells", "parquet": "all_cells"}


@pytest.fixture
def place(tmp_path):
    make_inputs(tmp_path, 1)
    return tmp_path


@pytest.fixture
def wide(tmp_path):
    """Inputs for two workers with two processes each."""
    make_inputs(tmp_path, 4, files=12)
    return tmp_path


@pytest.mark.parametrize(
    "engine",
    ["sqlite", *(pytest.param(n, marks=getattr(pytest.mark, tier)) for n, tier in OTHERS.items())],
)
def test_a_trial_of_two_workers(engine, wide):
    steps = [{"operations": 60, "threads": 2}, {"operations": 30, "batch": 4}]
    measured = trial(
        engine,
        ["write", {"name": "read", "params": {"operations": 1}, "steps": steps}],
        workers=2,
        processes=2,
    )
    for phase in ("write", "read"):
        jobs = [start(measured, wide, phase, worker) for worker in range(2)]
        codes = [exit_code(job, 90) for job in jobs]
        assert codes == [0, 0], (wide / f"{phase}.0.log").read_text()
    expected = sum(load_shards(wide / "shards.parquet")["documents"].to_pylist())
    parts = [wide / f"{phase}.{k}.parquet" for phase in ("write", "read") for k in range(2)]
    write, read = parts[:2], parts[2:]

    assert sum(total(p, "acknowledged") for p in write) == expected
    inserted = [total(p, "documents", operation="insert", second=None) for p in write]
    assert sum(inserted) == expected
    finished = [rows(p, metric="operations", operation="finish", second=None) for p in write]
    assert [len(ends) for ends in finished] == [2, 2], "each process ends its own store"
    assert sum(len(rows(p, metric="canary_cpu")) for p in write) == 1

    starts = [[total(p, "started_at", step=step) for p in read] for step in range(2)]
    assert max(starts[0]) <= min(starts[1]), "nobody begins a step before all are there"
    for step, (operations, documents) in enumerate([(60, 60), (30, 120)]):
        wanted = {"operation": "get", "step": step, "second": None}
        assert sum(total(p, "operations", **wanted) for p in read) == operations
        assert sum(total(p, "documents", **wanted) for p in read) == documents
        assert sum(total(p, "errors", **wanted) for p in read) == 0
        tag = "get.service_time" + (f";step={step}" if step else "")
        logs = [p.with_suffix(".hlog") for p in read]
        assert merge_logs(logs, tag=tag).get_total_count() == operations
    assert sum(bool(rows(p, metric="cpu_user")) for p in read) == 1  # one sampler a host
    assert all(rows(p, metric="client_cpu") for p in parts)
    _, conditions = read_part(write[1])
    assert conditions["seed"] == measured.seed
    assert conditions["versions"]["python"]
    assert conditions["host"]["cpus"] >= 1
    assert conditions["store_file_system"]

    files = StoredFiles.read([wide / f"written.{k}.parquet" for k in range(2)])
    assert len(files.digests) == 12
    assert sorted(set(files.shards.tolist())) == [0, 1, 2, 3]
    verify(measured, wide)
    checked = rows(wide / "verify.parquet", metric="checked_documents")
    if engine == "null":
        assert checked == []
        assert "skipped" in read_part(wide / "verify.parquet")[1]["verification"]
    else:
        assert len(checked) == 4
        assert min(row["value"] for row in checked) > 0
        assert total(wide / "verify.parquet", "counted_documents") == expected
        assert total(wide / "verify.parquet", "lost_documents") == 0
        assert sum(total(p, "store_bytes", second=None) for p in write) > 0
    counted = [[total(p, m) for p in write] for m in ("store_files", "store_inodes")]
    if engine == "null":
        assert counted == [[0, 0], [0, 0]], "it has no store"
    else:
        # Nothing was changed since the load.
        for worker, (files, inodes) in enumerate(zip(*counted, strict=True)):
            store = str(wide / f"store.{worker}")
            assert files == len(lines("find", store, "-type", "f"))
            assert inodes == len(lines("find", store))
            assert total(write[worker], "files_created") >= files > 0
    assert not [p for p in wide.rglob("*") if p.name.startswith(".") and p.name.endswith(".tmp")]


def lines(*command):
    """What a program prints, by lines."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_files_are_kept_with_their_inputs(place):
    """The engine `files` needs the inputs: they are its files."""
    inputs = place / "inputs" / "run"
    inputs.mkdir(parents=True)
    for path in load_shards(place / "shards.parquet")["path"].to_pylist():
        shutil.copy(path, inputs)
    paths = sorted(map(str, inputs.iterdir()))
    build_manifest(paths, place / "manifest.parquet")
    write_shards(place / "manifest.parquet", 1, place / "shards.parquet")
    measured = trial("files", ["write"], processes=1)
    driving.run_here(measured, place, "write")
    write = place / "write.0.parquet"
    found = lines("find", str(inputs), str(place / "store.0"))
    assert total(write, "store_inodes") == len(found)
    assert total(write, "store_files") == len(paths) + 1


def test_some_missing_documents_are_counted_errors(place, caplog):
    measured = trial("sqlite")
    driving.run_here(measured, place, "write")
    (path,) = [p for p in (place / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM rna")
    database.close()
    with caplog.at_level(logging.WARNING):
        driving.run_here(measured, place, "read")
    errors = total(place / "read.0.parquet", "errors", second=None)
    good = total(place / "read.0.parquet", "operations", second=None)
    assert errors > 20
    assert errors + good == 200
    log = place / "read.0.hlog"
    assert merge_logs([log], "get.service_time").get_total_count() == good
    assert merge_logs([log], "get.service_time;failed").get_total_count() == errors
    assert "of 200 operations failed, the first with: get: document" in caplog.text
    assert "is missing" in read_part(place / "read.0.parquet")[1]["warnings"][0]


def test_what_the_load_left_elsewhere_is_said_so(place):
    driving.run_here(trial("null"), place, "write")
    (place / "written.0.parquet").unlink()
    with pytest.raises(StorewiseError, match=r"written\.0\.parquet: not a list"):
        driving.run_here(trial("null"), place, "read")
    (place / "store.0").rename(place / "elsewhere")
    with pytest.raises(StorewiseError, match=r"store\.0/p0: the store is not here"):
        driving.run_here(trial("null"), place, "read")


def test_the_worker_imports_nothing_slow():
    code = (
        "import sys, storewise.driver.worker\n"
        "import storewise.workloads.alignments.workload, storewise.engines.sqlite.engine\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    # Each takes as long as all that a worker needs.
    slow = {"pandas", "scipy", "matplotlib", "snakemake", "sqlalchemy", "duckdb", "pymongo"}
    assert not slow & set(result.stdout.split())
