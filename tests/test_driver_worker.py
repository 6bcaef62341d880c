"""Worker jobs as real processes with real stores: results, order, and every way to end early."""

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time

import driving
import psutil
import pyarrow.compute as pc
import pytest
from driving import all_gone, children, make_inputs, start, trial, verify, wait_for

from storewise.errors import Aborted, ConfigError, EngineError, InputError, StorewiseError
from storewise.metrics.hdr import merge_logs, tags
from storewise.metrics.schema import read_part
from storewise.ssearch.shards import load_shards
from storewise.workloads.files import StoredFiles

LONG_READ = {"name": "read", "params": {"seconds": 120}}


def rows(path, **wanted):
    """Rows of a result part with these column values, as dicts."""
    table, _ = read_part(path)
    for name, value in wanted.items():
        column = table[name].cast("string") if isinstance(value, str) else table[name]
        table = table.filter(pc.is_null(column) if value is None else pc.equal(column, value))
    return table.to_pylist()


def total(path, metric, **wanted):
    return sum(row["value"] for row in rows(path, metric=metric, **wanted))


@pytest.fixture
def place(tmp_path):
    make_inputs(tmp_path, 1)
    return tmp_path


@pytest.fixture
def wide(tmp_path):
    """Inputs for two workers with two processes each."""
    make_inputs(tmp_path, 4, files=12)
    return tmp_path


@pytest.mark.parametrize("engine", ["null", "sqlite", "duckdb", "parquet"])
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
        codes = [job.wait(90) for job in jobs]
        assert codes == [0, 0], (wide / f"{phase}.0.log").read_text()
    expected = sum(load_shards(wide / "shards.parquet")["documents"].to_pylist())
    parts = [wide / f"{phase}.{k}.parquet" for phase in ("write", "read") for k in range(2)]
    write, read = parts[:2], parts[2:]

    assert sum(total(p, "acknowledged") for p in write) == expected
    for second in ({"second": None}, {}):
        found = sum(total(p, "documents", operation="insert", **second) for p in write)
        assert found == expected * (1 if second else 2)
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
    assert not [p for p in wide.rglob("*") if p.name.startswith(".") and p.name.endswith(".tmp")]


def test_warmup_is_marked_and_kept(place):
    measured = trial(
        "null", ["write", {"name": "read", "params": {"seconds": 2.4, "warmup": 1}}], processes=1
    )
    driving.run_here(measured, place, "write")
    driving.run_here(measured, place, "read")
    read = place / "read.0.parquet"
    per_second = [r for r in rows(read, metric="operations") if r["second"] is not None]
    assert [(r["second"], r["warmup"]) for r in per_second] == [(0, True), (1, False), (2, False)]
    assert sum(r["value"] for r in per_second) == total(read, "operations", second=None)
    log = place / "read.0.hlog"
    warm = merge_logs([log], "get.service_time;warmup").get_total_count()
    steady = merge_logs([log], "get.service_time").get_total_count()
    assert warm == per_second[0]["value"]
    assert steady == per_second[1]["value"] + per_second[2]["value"]
    assert rows(read, metric="duration", process=None)[0]["value"] == pytest.approx(2.4, abs=0.3)


def test_reads_are_the_same_again_and_differ_between_clients(place):
    from storewise.workloads.alignments import AlignmentsWorkload

    driving.run_here(trial("null"), place, "write")
    from storewise.engines.registry import engine
    from storewise.workloads.alignments import ReadParams
    from storewise.workloads.base import ClientContext

    class Spy:
        def __init__(self):
            self.seen = []

        def get(self, kind, document_id):
            self.seen.append((kind, document_id))
            return {"_id": document_id}

    def draw(**place_of):
        given = {"worker": 0, "process": 0, "thread": 0, "seed": 5, "step": 0, **place_of}
        spy = Spy()
        context = ClientContext(
            engine=engine("null"),
            schema=None,
            params=ReadParams(operations=4001),
            shards=place / "shards.parquet",
            workers=2,
            processes=1,
            threads=1,
            phase="read",
            written=(place / "written.0.parquet",),
            **given,
        )
        for operation in AlignmentsWorkload().operations("read", spy, context):
            operation.call()
        return spy.seen

    first = draw()
    assert draw() == first
    assert len(first) == 2001
    assert len(draw(worker=1)) == 2000
    for other in ({"worker": 1}, {"seed": 6}, {"step": 1}):
        assert draw(**other)[:100] != first[:100]
    files = StoredFiles.read([place / "written.0.parquet"])
    stored = {}
    from storewise.documents import Kind, ids_of_file

    for digest, queries, alignments in zip(
        files.digests.to_pylist(), files.queries.tolist(), files.alignments.tolist(), strict=True
    ):
        stored |= {i: kind for kind, i in ids_of_file(digest, queries, alignments)}
    assert all(stored[document_id] == kind for kind, document_id in first)
    # Uniform over all documents: the shares of the kinds and of the files are those stored.
    for kind in Kind:
        share = sum(k is kind for k, _ in first) / len(first)
        true = files.total(kind) / len(stored)
        assert abs(share - true) < 4 * (true * (1 - true) / len(first)) ** 0.5 + 1e-9
    for digest, queries, alignments in zip(
        files.digests.to_pylist(), files.queries.tolist(), files.alignments.tolist(), strict=True
    ):
        share = sum(i.startswith(digest[:7]) for _, i in first) / len(first)
        true = (queries + 3 * alignments) / len(stored)
        assert abs(share - true) < 5 * (true * (1 - true) / len(first)) ** 0.5


def test_a_killed_client_ends_the_worker(place):
    measured = trial("null", ["write", LONG_READ], processes=1)
    driving.run_here(measured, place, "write")
    job = start(measured, place, "read")
    (victim,) = children(job, 1)
    wait_for(lambda: "waiting for the other workers" in (place / "read.0.log").read_text())
    victim.send_signal(signal.SIGKILL)
    assert job.wait(15) != 0
    text = (place / "read.0.log").read_text()
    assert f"client process 0 (pid {victim.pid}) was ended by SIGKILL" in text
    assert not (place / "read.0.parquet").exists()


@pytest.mark.parametrize("phase", ["write", "read"])
def test_no_client_outlives_a_killed_worker(phase, wide):
    measured = trial("sqlite", ["write", LONG_READ], workers=2, processes=2)
    if phase == "read":
        jobs = [start(measured, wide, "write", worker) for worker in range(2)]
        assert [job.wait(60) for job in jobs] == [0, 0]
        jobs = [start(measured, wide, "read", worker) for worker in range(2)]
        clients = [c for job in jobs for c in children(job, 2)]
    else:
        # The second worker never comes: the clients wait at the barrier.
        jobs = [start(measured, wide, "write", 0)]
        clients = children(jobs[0], 2)
        wait_for(lambda: "waiting for the other workers" in (wide / "write.0.log").read_text())
    for job in jobs:
        job.kill()
        job.wait()
    assert all_gone(clients, 3)
    assert not list(wide.glob(f"{phase}.*.parquet"))


@pytest.mark.parametrize("when", ["barrier", "loop"])
def test_an_abort_ends_the_worker(when, wide):
    measured = trial("null", ["write", LONG_READ], workers=2, processes=2)
    phase = "write" if when == "barrier" else "read"
    if when == "barrier":
        jobs = [start(measured, wide, "write", 0)]
    else:
        jobs = [start(measured, wide, "write", worker) for worker in range(2)]
        assert [job.wait(60) for job in jobs] == [0, 0]
        jobs = [start(measured, wide, "read", worker) for worker in range(2)]
    clients = [c for job in jobs for c in children(job, 2)]
    wait_for(lambda: "waiting for the other workers" in (wide / f"{phase}.0.log").read_text())
    if when == "loop":
        wait_for(lambda: all(c.cpu_times().user > 0.5 for c in clients))
    (wide / "live" / "abort").write_text("node 1 died: no space left")
    start_of_end = time.monotonic()
    assert [job.wait(10) for job in jobs] == [1] * len(jobs)
    assert time.monotonic() - start_of_end < 5
    assert all_gone(clients, 1)
    assert "Aborted: node 1 died: no space left" in (wide / f"{phase}.0.log").read_text()
    assert not list(wide.glob(f"{phase}.*.parquet"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_worker_leaves_no_client(number, place):
    measured = trial("null", ["write", LONG_READ], processes=1)
    driving.run_here(measured, place, "write")
    job = start(measured, place, "read")
    clients = children(job, 1)
    wait_for(lambda: "waiting for the other workers" in (place / "read.0.log").read_text())
    job.send_signal(number)
    assert job.wait(10) != 0
    assert all_gone(clients, 3)


def test_a_bad_file_names_itself_and_ends_the_worker(place):
    shard = load_shards(place / "shards.parquet").to_pylist()[0]
    copy = place / "copy.m10.gz"
    copy.write_bytes(driving.Path(shard["path"]).read_bytes())
    driving.build_manifest([str(copy)], place / "manifest.parquet")
    driving.write_shards(place / "manifest.parquet", 1, place / "shards.parquet")
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 0x55
    copy.write_bytes(data)
    with pytest.raises(InputError, match=r"copy\.m10\.gz"):
        driving.run_here(trial("sqlite"), place, "write")
    copy.write_bytes(data[:-10])
    (place / "store.0").rename(place / "old")
    with pytest.raises(InputError, match="not what it was when the manifest was made"):
        driving.run_here(trial("sqlite"), place, "write")
    assert not (place / "write.0.parquet").exists()
    assert not (place / "written.0.parquet").exists()


def changed_input(place, change):
    """A shard of two files, one of which changes after the manifest, in place and size."""
    import gzip

    paths = []
    for number, source in enumerate(load_shards(place / "shards.parquet")["path"].to_pylist()[:2]):
        content = gzip.decompress(driving.Path(source).read_bytes())
        path = place / f"file{number}.m10"
        path.write_bytes(content)
        paths.append(path)
    driving.build_manifest([str(p) for p in paths], place / "manifest.parquet")
    driving.write_shards(place / "manifest.parquet", 1, place / "shards.parquet")
    content = paths[0].read_bytes()
    paths[0].write_bytes(change(content))
    assert paths[0].stat().st_size == len(content)
    return paths


def test_a_changed_digest_is_found(place):
    # Another letter in a description: a complete output with equal counts and size.
    def change(content):
        at = content.rindex(b"\n>>")
        at = content.index(b" ", at) + 3
        return content[:at] + (b"X" if content[at : at + 1] != b"X" else b"Y") + content[at + 1 :]

    changed_input(place, change)
    with pytest.raises(InputError, match=r"file0\.m10: the file is not what it was.*digest"):
        driving.run_here(trial("sqlite"), place, "write")


def test_quarantine_takes_a_bad_file_out_again(place):
    def change(content):
        at = content.rindex(b"; sw_overlap: ") + len(b"; sw_overlap: ")
        return content[:at] + b"x" + content[at + 1 :]

    bad, good = changed_input(place, change)
    with pytest.raises(InputError, match=r"file0\.m10, line \d+"):
        driving.run_here(trial("sqlite"), place, "write")
    (place / "store.0").rename(place / "old")
    small = [{"name": "write", "params": {"batch_size": 50}}]  # a part is stored already
    measured = trial("sqlite", small, on_bad_input="quarantine")
    driving.run_here(measured, place, "write")
    _, conditions = read_part(place / "write.0.parquet")
    assert [q["path"] for q in conditions["quarantined"]] == [str(bad)]
    assert conditions["quarantined"][0]["line"] > 1
    files = StoredFiles.read([place / "written.0.parquet"])
    assert files.paths.to_pylist() == [str(good)]
    whole = int(files.queries.sum() + 3 * files.alignments.sum())
    assert total(place / "write.0.parquet", "acknowledged") > whole  # what came and went
    verify(measured, place)  # counts would show what was left of the bad file
    (place / "store.0").rename(place / "older")
    with pytest.raises(InputError, match="cannot delete"):
        driving.run_here(trial("parquet", small, on_bad_input="quarantine"), place, "write")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_is_the_stores_own_error(place):
    store = place / "store.0"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", store], check=True)
    try:
        with pytest.raises(StorewiseError, match=r"(?i)full|space"):
            driving.run_here(trial("sqlite", id="other"), place, "write")
    finally:
        subprocess.run(["umount", store], check=True)
    assert not (place / "write.0.parquet").exists()


def test_verification_finds_what_is_lost_or_changed(place):
    import sqlite3

    measured = trial("sqlite", verify=5000)
    driving.run_here(measured, place, "write")
    verify(measured, place)
    (path,) = [p for p in (place / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE align SET f = 'x'")
    database.close()
    with pytest.raises(EngineError, match=r"align: .* wrong of .*document [0-9a-f]{24} has 'x'"):
        verify(measured, place)
    with sqlite3.connect(path) as database:
        lost = database.execute("DELETE FROM rna").rowcount
    database.close()
    with pytest.raises(EngineError, match=rf"rna: {lost} documents expected, 0 counted"):
        verify(measured, place)
    relaxed = measured.model_copy(update={"consistency": "relaxed"})
    verify(relaxed, place)
    result = place / "verify.parquet"
    assert total(result, "lost_documents", operation="rna") == lost
    assert total(result, "wrong_documents", operation="align") > 0
    assert read_part(result)[1]["verification"] == "measured"


def test_reading_from_an_empty_store_is_an_error_not_a_figure(place):
    import sqlite3

    measured = trial("sqlite")
    driving.run_here(measured, place, "write")
    (path,) = [p for p in (place / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    with sqlite3.connect(path) as database:
        for table in ("tasks", "rna", "gs", "align"):
            database.execute(f"DELETE FROM {table}")
    database.close()
    with pytest.raises(StorewiseError, match=r"200 of 200 operations failed.*is missing"):
        driving.run_here(measured, place, "read")


def test_some_missing_documents_are_counted_errors(place, caplog):
    import sqlite3

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


def test_an_unexpected_error_of_a_client_keeps_its_traceback(place, caplog, monkeypatch):
    from storewise.engines.null import NullClient

    def broken(self, kind, document_id):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(NullClient, "get", broken)
    driving.run_here(trial("null"), place, "write")
    with pytest.raises(RuntimeError, match="client process 0 failed: ZeroDivisionError: a defect"):
        driving.run_here(trial("null"), place, "read")
    assert "in broken" in caplog.text


def test_the_worker_starts_quickly():
    code = (
        "import time, sys\nstart = time.perf_counter()\nimport storewise.driver.worker\n"
        "import storewise.workloads.alignments, storewise.engines.sqlite\n"
        "print(time.perf_counter() - start, 'pandas' in sys.modules, 'scipy' in sys.modules)"
    )
    found = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    words = [result.stdout.split() for result in found]
    assert all(word[1:] == ["False", "False"] for word in words)
    # 0.5 s on an idle machine; a loaded one is given more.
    assert min(float(word[0]) for word in words) < 1.5


def test_no_process_is_left():
    assert importlib.util.find_spec("driving") is not None
    left = [p for p in psutil.Process().children(recursive=True) if p.is_running()]
    assert [p for p in left if p.status() != psutil.STATUS_ZOMBIE] == []


def test_aborted_is_not_a_failed_operation():
    from storewise.driver.loop import closed_loop
    from storewise.metrics.recorder import Recorder
    from storewise.workloads.base import Operation

    def ended():
        raise Aborted("the trial was ended")

    with pytest.raises(Aborted):
        closed_loop(iter([Operation("get", ended)]), Recorder(0))
