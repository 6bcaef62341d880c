"""Worker jobs as real processes with real stores: what they measure and write."""

import subprocess
import sys

from support.driving import make_inputs, rows, start, total, trial, verify
from support.waiting import exit_code

from storewise.metrics.hdr import merge_logs
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.shards import load_shards
from storewise.workloads.alignments.stored_files import StoredFiles


def test_a_trial_of_two_workers(tmp_path):
    """With two processes each."""
    make_inputs(tmp_path, 4, files=12)
    steps = [{"operations": 60, "threads": 2}, {"operations": 30, "batch": 4}]
    read = {"name": "read", "params": {"operations": 1}, "steps": steps}
    measured = trial("sqlite", ["write", read], workers=2, processes=2)
    for phase in ("write", "read"):
        jobs = [start(measured, tmp_path, phase, worker) for worker in range(2)]
        codes = [exit_code(job, 90) for job in jobs]
        assert codes == [0, 0], (tmp_path / f"{phase}.0.log").read_text()
    expected = sum(load_shards(tmp_path / "shards.parquet")["documents"].to_pylist())
    write, read = ([tmp_path / f"{p}.{k}.parquet" for k in range(2)] for p in ("write", "read"))
    assert sum(total(p, "acknowledged") for p in write) == expected
    finished = [rows(p, metric="operations", operation="finish", second=None) for p in write]
    assert [len(ends) for ends in finished] == [2, 2], "each process ends its own store"
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
    assert all(rows(p, metric="client_cpu") for p in (*write, *read))
    assert read_part(write[1])[1]["seed"] == measured.seed
    files = StoredFiles.read([tmp_path / f"written.{k}.parquet" for k in range(2)])
    assert len(files.column("digest")) == 12
    assert sorted(set(files.column("shard"))) == [0, 1, 2, 3]
    verify(measured, tmp_path)
    checked = rows(tmp_path / "verify.parquet", metric="checked_documents")
    assert len(checked) == 4 and min(row["value"] for row in checked) > 0
    assert total(tmp_path / "verify.parquet", "counted_documents") == expected
    assert total(tmp_path / "verify.parquet", "lost_documents") == 0
    # Nothing was changed since the load.
    for worker, part in enumerate(write):
        store = [tmp_path / f"store.{worker}", *(tmp_path / f"store.{worker}").rglob("*")]
        files = sum(path.is_file() for path in store)
        assert (total(part, "store_files"), total(part, "store_inodes")) == (files, len(store))
        assert total(part, "store_bytes", second=None) > 0
    assert not [p for p in tmp_path.rglob(".*") if p.name.endswith(".tmp")]


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
