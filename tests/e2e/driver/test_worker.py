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

from storewise.errors import ConfigError, StorewiseError
from storewise.metrics.hdr import merge_logs, tags
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.shards import load_shards, write_shards
from storewise.workloads.alignments.stored_files import StoredFiles

#: What whole studies of `make test` measure, too.
OTHERS = ("null", "duckdb", "chdb", "parquet")


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
    "engine", ["sqlite", *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS)]
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
    for second in ({"second": None}, {}):
        result = sum(total(p, "documents", operation="insert", **second) for p in write)
        assert result == expected * (1 if second else 2)
    assert (
        sum(len(rows(p, metric="operations", operation="finish", second=None)) for p in write) == 4
    )
    insert_bytes = sum(total(p, "bytes", operation="insert", second=None) for p in write)
    assert insert_bytes > 50 * expected
    assert sum(len(rows(p, metric="canary_cpu")) for p in write) == 1

    for step, (operations, documents) in enumerate([(60, 60), (30, 120)]):
        wanted = {"operation": "get", "step": step, "second": None}
        assert sum(total(p, "operations", **wanted) for p in read) == operations
        assert sum(total(p, "documents", **wanted) for p in read) == documents
        assert sum(total(p, "errors", **wanted) for p in read) == 0
        starts = [total(p, "started_at", step=step) for p in read]
        assert abs(starts[0] - starts[1]) < 0.5
        tag = "get.service_time" + (f";step={step}" if step else "")
        logs = [p.with_suffix(".hlog") for p in read]
        assert merge_logs(logs, tag=tag).get_total_count() == operations
        assert (
            merge_logs(logs, tag=tag.replace("service", "response")).get_total_count() == operations
        )
    assert set(tags(write[0].with_suffix(".hlog"))) == {
        f"{operation}.{time}"
        for operation in ("insert", "finish")
        for time in ("service_time", "response_time")
    }
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


def test_warmup_is_marked_and_kept(place):
    measured = trial(
        "null", ["write", {"name": "read", "params": {"seconds": 2.4, "warmup": 1}}], processes=1
    )
    driving.run_here(measured, place, "write")
    driving.run_here(measured, place, "read")
    read = place / "read.0.parquet"
    per_second = [r for r in rows(read, metric="operations") if r["second"] is not None]
    seconds = [r["second"] for r in per_second]
    assert seconds[:3] == [0, 1, 2]
    assert [r["warmup"] for r in per_second] == [second < 1 for second in seconds]
    assert sum(r["value"] for r in per_second) == total(read, "operations", second=None)
    log = place / "read.0.hlog"
    warm = merge_logs([log], "get.service_time;warmup").get_total_count()
    steady = merge_logs([log], "get.service_time").get_total_count()
    assert warm == per_second[0]["value"]
    assert steady == sum(r["value"] for r in per_second[1:])
    (duration,) = rows(read, metric="duration", process=None)
    assert max(seconds) <= duration["value"]


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


def test_reading_from_an_empty_store_is_an_error_not_a_figure(place):
    measured = trial("sqlite")
    driving.run_here(measured, place, "write")
    (path,) = [p for p in (place / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    with sqlite3.connect(path) as database:
        for table in ("tasks", "rna", "gs", "align"):
            database.execute(f"DELETE FROM {table}")
    database.close()
    with pytest.raises(StorewiseError, match=r"200 of 200 operations failed.*is missing"):
        driving.run_here(measured, place, "read")


def test_jobs_that_do_not_fit_are_refused(place):
    with pytest.raises(ConfigError, match=r"phase 'read', step 1: batch: .*greater than"):
        driving.run_here(
            trial(
                "null",
                [
                    "write",
                    {"name": "read", "params": {"seconds": 1}, "steps": [{}, {"batch": 0}]},
                ],
            ),
            place,
            "read",
        )
    with pytest.raises(ConfigError, match="must end the phase"):
        driving.run_here(trial("null", ["write", "read"]), place, "read")
    with pytest.raises(ConfigError, match="can have one step only"):
        driving.run_here(
            trial("null", [{"name": "write", "steps": [{}, {"batch_size": 5}]}]), place, "write"
        )
    with pytest.raises(ConfigError, match="threads is 0"):
        driving.run_here(
            trial("null", [{"name": "write", "steps": [{"threads": 0}]}]), place, "write"
        )
    (place / "store.0" / "p0").mkdir(parents=True)
    (place / "store.0" / "p0" / "left").touch()
    with pytest.raises(StorewiseError, match="a load needs an empty directory"):
        driving.run_here(trial("sqlite"), place, "write")
    with pytest.raises(StorewiseError, match=r"written\.0\.parquet: not a list"):
        driving.run_here(trial("null"), place, "read")


def test_a_store_that_is_elsewhere_is_said_so(place):
    driving.run_here(trial("null"), place, "write")
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
