"""A worker and its clients from the first word to the result: loads, steps, searches, ends."""

import shutil
import threading

import pytest
from support.driving import rows, total
from support.in_threads import MemoryClient, arrived, job, run, ycsb

from storewise.driver import rate_search, worker
from storewise.driver.rate_search import SUMMARIES, Tried
from storewise.errors import Aborted, ConfigError, EngineError, StorewiseError
from storewise.metrics import sampler
from storewise.metrics.hdr import merge_logs, tags
from storewise.metrics.schema import Sample, read_part
from storewise.session.coordination.cluster import LOADED
from storewise.session.coordination.ending import NO_MEMORY
from storewise.session.coordination.progress import PROGRESS
from storewise.workloads.alignments.stored_files import StoredFiles
from storewise.workloads.contract import LoadedFile, RefusedFile
from storewise.workloads.ycsb.workload import YcsbWorkload

ONLY_READS = {"name": "c", "params": {"operations": 12}}


def said(path):
    return read_part(path)[1]


def opened(its):
    """The barriers that all have passed."""
    return {path.name for path in (its.live / "barriers" / "open").iterdir()}


def open_for(its, *names):
    """The first worker has opened these barriers."""
    for name in names:
        (its.live / "barriers" / "open").mkdir(parents=True, exist_ok=True)
        (its.live / "barriers" / "open" / name).touch()


def fail_on(server, verb, error, after=0):
    """Let a verb of the store fail, from the call after so many on."""

    def before(name, key):
        if name == verb and server.calls[verb] > after:
            raise error

    server.before = before


def test_a_load_is_whole_flushed_by_each_client_and_ended_once(server, tmp_path):
    trial = ycsb(processes=2, threads=2)
    load = run(trial, tmp_path, "load", conditions={"warnings": ["before"]})
    assert len(server.documents) == total(load.result, "acknowledged") == 40
    assert server.calls == {"insert": 4, "flush": 4, "finish": 1, "close": 2}
    place = {"operation": "insert", "second": None}
    for metric, value in (("operations", 4), ("documents", 40), ("bytes", 400)):
        assert total(load.result, metric, **place) == value
    assert [r["process"] for r in rows(load.result, metric="operations", **place)] == [0, 1]
    (finish,) = rows(load.result, metric="operations", operation="finish", second=None)
    assert (finish["process"], finish["value"]) == (0, 1)
    times = ("response_time", "service_time")
    names = [f"{name}.{time}" for name in ("finish", "insert") for time in times]
    assert tags(load.hdr_log) == names
    assert merge_logs([load.hdr_log], "insert.service_time").get_total_count() == 4
    # Of a server one process tells the size.
    (size,) = rows(load.result, metric="store_bytes", second=None)
    assert (size["process"], size["value"]) == (0, 4000)
    assert len(rows(load.result, metric="duration", second=None)) == 3, "its own, and a process's"

    assert (load.live / LOADED).exists()
    assert opened(load) == {"load-0", "load-loaded"}
    assert not list((load.live / PROGRESS).iterdir())
    conditions = said(load.result)
    (step,) = conditions["steps"]
    assert (step["threads"], step["clients"], step["recordcount"]) == (2, 4, 40)
    assert [note["tried"] for note in conditions["notes"]] == [10] * 4
    assert {"storewise", "python", "psutil", "hdrhistogram"} < set(conditions["versions"])
    expected = {
        "warnings": ["before"], "worker": 0, "sampled_host": True, "crashes": [], "searches": [],
        "engine": {"title": "Memory", "embedded": False, "stores": True},
        "store_file_system": None,  # what a server has is not on this host
    }  # fmt: skip
    assert expected.items() <= conditions.items()


def test_files_that_clients_stored_or_left_out_are_listed(server, tmp_path, monkeypatch, caplog):
    operations = YcsbWorkload.operations

    def with_files(self, phase, client, context):
        assert context.quarantine
        context.loaded.append(LoadedFile(f"in/{context.client}", b"d" * 16, 9, 1, 2, 0))
        context.refused.append(RefusedFile(f"in/bad{context.client}", "it is bad", 7, None))
        return operations(self, phase, client, context)

    monkeypatch.setattr(YcsbWorkload, "operations", with_files)
    files = tmp_path / "written.0.parquet"
    load = run(ycsb(processes=2, on_bad_input="quarantine"), tmp_path, "load", files=files)
    assert StoredFiles.read([files]).column("path") == ["in/0", "in/1"]
    assert said(load.result)["quarantined"] == [
        {"path": f"in/bad{n}", "reason": "it is bad", "line": 7, "offset": None} for n in range(2)
    ]
    assert "left out: it is bad" in caplog.text


def test_another_worker_does_not_end_the_load_nor_say_that_all_is_there(server, tmp_path):
    trial = ycsb(workers=2)
    its = job(trial, tmp_path, "load", 1)
    open_for(its, "load-0", "load-loaded")
    run(trial, tmp_path, "load", 1)
    assert len(server.documents) == 20
    assert (server.calls["finish"], server.calls["flush"]) == (0, 1)
    assert not (its.live / LOADED).exists()
    assert not rows(its.result, metric="store_bytes", second=None)
    assert not rows(its.result, operation="finish")
    assert {row["worker"] for row in rows(its.result)} == {1, None}


def test_one_canary_in_a_trial_one_sampler_of_the_host_a_phase(server, tmp_path, monkeypatch):
    measured = Sample("load", "canary_cpu", 1.0, "1/s")
    monkeypatch.setattr(worker, "run_canary", lambda place, *, phase: [measured])
    trial = ycsb(ONLY_READS)
    its = job(trial, tmp_path, "load")
    for path in (its.live / "elected").iterdir():
        path.unlink()
    run(trial, tmp_path, "load")
    for first in (True, False):
        read = run(trial, tmp_path, "c")
        assert said(read.result)["sampled_host"] == first
        assert not rows(read.result, metric="canary_cpu")
    assert len(rows(its.result, metric="canary_cpu")) == 1


def test_steps_have_their_numbers_clients_and_barriers(server, tmp_path, monkeypatch):
    steps = [{"threads": 3, "operations": 14}, {"clients": 1}, {"restart": True, "operations": 7}]
    trial = ycsb({**ONLY_READS, "steps": steps}, processes=2)
    run(trial, tmp_path, "load")
    # Servers are restarted between two barriers, when all clients are closed.
    closed = []
    restart = "storewise.driver.step_faults.Orders.restart"
    monkeypatch.setattr(restart, lambda self: closed.append(server.calls["close"]))
    read = run(trial, tmp_path, "c")
    assert closed == [2 + 2]
    assert server.calls["close"] == 2 + 2 + 2
    assert {"c-0", "c-1", "c-2", "c-2-closed", "c-2-restarted"} < opened(read)
    wanted = {"operation": "read", "second": None}
    done = [rows(read.result, metric="operations", step=n, **wanted) for n in range(3)]
    assert [sum(r["value"] for r in step) for step in done] == [14, 12, 7]
    assert [[r["process"] for r in step] for step in done] == [[0, 1], [0], [0, 1]]
    shapes = [(s["threads"], s["clients"]) for s in said(read.result)["steps"]]
    assert shapes == [(3, 6), (1, 1), (1, 2)]
    # A process without clients in a step has no run time in it.
    durations = rows(read.result, metric="duration", step=1, second=None)
    assert [r["process"] for r in durations] == [None, 0]
    assert said(read.result)["warnings"] == []


def test_time_and_pace_of_a_step(server, tmp_path, caplog):
    """A step of its own time; one whose operations take longer than their rate allows."""
    slow = {"rate": 500, "arrivals": "constant"}
    trial = ycsb({"name": "c", "params": {"seconds": 0.2}, "steps": [{"warmup": 0.1}, slow]})
    run(trial, tmp_path, "load")
    gate = threading.Event()
    server.before = lambda verb, key: gate.wait(0.02) if verb == "get" else None
    read = run(trial, tmp_path, "c")
    for step in range(2):
        (whole, _) = rows(read.result, metric="duration", step=step, second=None)
        assert whole["value"] >= 0.2
    timed = [r for r in rows(read.result, step=0) if r["second"] is not None]
    assert timed and {r["warmup"] for r in timed if r["second"] == 0} == {True}
    assert not rows(read.result, metric="target_rate", step=0)
    names = ("target_rate", "intended_operations", "unserved_operations")
    rate, intended, unserved = (total(read.result, name, step=1) for name in names)
    assert (rate, intended) == (500, 100)
    assert 50 < unserved < 100
    done = total(read.result, "operations", step=1, operation="read", second=None)
    assert done == intended - unserved
    (warning,) = said(read.result)["warnings"]
    assert warning.startswith("c, step 1: the target rate of 500 operations/s was missed by ")
    assert f"{unserved:.0f} of 100 operations had not begun" in warning


@pytest.mark.parametrize(
    ("level", "after", "ends"),
    [
        *((level, 2, "no room") for level in ("durable", "")),  # the engine's first level
        ("relaxed", 2, None),
        # Nothing was stored; that the load could be ended is no success.
        ("relaxed", 0, "load, step 0: 4 of 5 operations failed, the first with: insert: no room"),
    ],
)
def test_a_refused_insert_ends_a_durable_load_and_is_counted_at_a_level_that_may_lose(
    server, tmp_path, level, after, ends
):
    fail_on(server, "insert", EngineError("no room"), after)
    trial = ycsb(threads=2, consistency=level)
    trial.load.params["batchsize"] = 10
    if ends is not None:
        with pytest.raises(StorewiseError) as error:
            run(trial, tmp_path, "load")
        assert str(error.value) == ends
        assert not list(tmp_path.glob("load.*"))
        assert not list((tmp_path / "live" / PROGRESS).iterdir())
        return
    result = run(trial, tmp_path, "load").result
    assert total(result, "errors", second=None) == 2
    assert total(result, "acknowledged") == len(server.documents) == 20
    (warning,) = said(result)["warnings"]
    assert warning == "load, step 0: 2 of 5 operations failed, the first with: insert: no room"


def test_failed_reads_are_warned_of_unless_all_fail(server, tmp_path):
    trial = ycsb(ONLY_READS)
    run(trial, tmp_path, "load")
    fail_on(server, "get", EngineError("gone"), after=5)
    read = run(trial, tmp_path, "c")
    assert total(read.result, "errors", second=None) == 7
    assert total(read.result, "owner_errors") == 7
    assert total(read.result, "owner_operations") == 5
    assert merge_logs([read.hdr_log], "read.service_time;failed").get_total_count() == 7
    with pytest.raises(StorewiseError, match=r"c, step 0: 12 of 12 operations failed"):
        run(trial, tmp_path, "c")


class Odd(EngineError):
    """It cannot be sent through a pipe."""

    def __init__(self, number, reason):
        super().__init__(f"{number}: {reason}")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ZeroDivisionError("a defect"), RuntimeError, "client process 0 failed: ZeroDivisionError"),
        (MemoryError(), StorewiseError, NO_MEMORY),
        (OSError(28, "full"), StorewiseError, "OSError: [Errno 28] full"),
        (Aborted("the trial has ended"), Aborted, "the trial has ended"),
        (Odd(7, "no"), StorewiseError, "7: no"),
    ],
)
def test_what_ends_a_client_ends_the_worker_with_its_reason(
    server, tmp_path, caplog, error, kind, words
):
    reads = {"name": "c", "params": {"operations": 12}}
    trial = ycsb(reads, consistency="durable" if isinstance(error, Odd) else "relaxed")
    verb = "insert" if isinstance(error, Odd) else "get"
    if verb == "get":
        run(trial, tmp_path, "load")
    fail_on(server, verb, error)
    with pytest.raises(kind) as raised:
        run(trial, tmp_path, "c" if verb == "get" else "load")
    assert words in str(raised.value)
    assert "in before" in caplog.text, "where it happened"
    assert not (tmp_path / "c.0.parquet").exists()


@pytest.mark.usefixtures("server")
def test_a_thread_that_cannot_sign_in_ends_the_step_with_its_own_error(tmp_path, monkeypatch):
    """Not with that of the others, which wait for it."""
    trial = ycsb({"name": "c", "params": {"operations": 12}}, threads=3)
    run(trial, tmp_path, "load")
    errors = iter([EngineError("too many connections")])

    def open_thread(client):
        for error in errors:
            raise error
        return client

    monkeypatch.setattr(MemoryClient, "open_thread", open_thread)
    with pytest.raises(StorewiseError, match="too many connections"):
        run(trial, tmp_path, "c")


def test_the_end_of_the_trial_is_seen_while_clients_work(server, tmp_path):
    trial = ycsb({"name": "c", "params": {"seconds": 600}})
    run(trial, tmp_path, "load")

    def check():
        if server.calls["get"]:
            raise Aborted("data0 has died")

    with pytest.raises(Aborted, match="data0 has died"):
        run(trial, tmp_path, "c", check=check)
    assert not (tmp_path / "c.0.parquet").exists()
    # Its clients see that the step has been stopped.
    for client in threading.enumerate():
        if client.name.startswith("client"):
            client.join(60)
            assert not client.is_alive()


def test_jobs_that_cannot_be_are_refused(server, tmp_path):
    for number in (-1, 2):
        with pytest.raises(ConfigError, match=rf"worker {number}: the trial has workers 0\.\.1"):
            run(ycsb(workers=2), tmp_path, "load", number)
    with pytest.raises(ConfigError, match="'load' loads and needs a store directory"):
        run(ycsb(engine="null"), tmp_path, "load", cluster=None)


def test_an_embedded_load_ends_each_store_and_counts_its_files(server, tmp_path, monkeypatch):
    """SQLite, two stores; then a phase that changes each client's own one."""
    change = {"name": "a", "params": {"operations": 10}}
    trial = ycsb(change, ONLY_READS, engine="sqlite", processes=2)
    here = {"cluster": None}
    store = tmp_path / "store"
    load = run(trial, tmp_path, "load", store=store, **here)
    assert total(load.result, "acknowledged") == 40
    assert len(rows(load.result, metric="operations", operation="finish", second=None)) == 2
    assert len(rows(load.result, metric="store_bytes", second=None)) == 2
    files = [p for p in store.rglob("*") if p.is_file()]
    assert total(load.result, "store_files") == len(files)
    assert {r["worker"] for r in rows(load.result, metric="store_files")} == {0}
    assert said(load.result)["store_file_system"]
    assert said(load.result)["warnings"] == []

    changed = run(trial, tmp_path, "a", stores=(store,), **here)
    (warning,) = said(changed.result)["warnings"]
    assert warning.startswith("a changes data: each client process worked on its own one of the 2")
    assert not rows(changed.result, metric="store_files")
    read = run(trial, tmp_path, "c", stores=(store,), **here)
    assert said(read.result)["warnings"] == []
    assert total(read.result, "errors", second=None) == 0
    for its in (changed, read):
        assert not rows(its.result, metric="store_bytes", second=None), "some flush to tell it"

    monkeypatch.setattr(worker, "file_system", lambda path: "nfs4")
    conditions = said(
        run(ycsb(engine="null"), tmp_path, "load", store=tmp_path / "s", **here).result
    )
    (warning,) = conditions["warnings"]
    assert "the stores of load lie on a network file system (nfs4)" in warning
    assert conditions["store_file_system"] == "nfs4"


def search(tmp_path, steps, **changes):
    """What is left of a search, between a step before it and one after it."""
    params = {"low": 100, "high": 1600, "limit_ms": 5, "steps": steps, "seconds": 0.02}
    phase = {"name": "c", "steps": [{"operations": 3}, {"search": params}, {"operations": 4}]}
    trial = ycsb(phase, **changes)
    run(trial.model_copy(update={"workers": 1}), tmp_path, "load")
    for other in range(1, trial.workers):
        shutil.copy(tmp_path / "load.0.parquet", tmp_path / f"load.{other}.parquet")
    result = run(trial, tmp_path, "c").result
    conditions = said(result)
    return result, conditions, *conditions["searches"]


@pytest.mark.parametrize(
    ("capacity", "steps", "rates", "found", "step", "warned"),
    [
        # Up to 1600: 400, 800, and the better one again.
        (1e9, 3, [400, 800, 800], 800, 3, ["every rate that was tried stays within"]),
        (500, 3, [400, 800, 400], 400, 3, []),
        (500, 2, [400, 400], 400, 2, ["every rate that was tried stays within"]),
        (50, 3, [400, 200, 100], None, None, ["no rate that was tried stays within"]),
        (150, 3, [400, 200, 100], 100, 3, ["the highest rate was met once only"]),
    ],
)
def test_a_search_measures_rates_until_it_has_its_answer(
    server, tmp_path, monkeypatch, capacity, steps, rates, found, step, warned
):
    """The store can do so much: how a step is judged is tested beside the search."""
    judge = lambda search, rate, summaries: Tried(rate, rate <= capacity, 1.0, 1.0)  # noqa: E731
    monkeypatch.setattr(rate_search, "judge", judge)
    part, conditions, result = search(tmp_path, steps)
    tried = [one["rate"] for one in result["tried"]]
    assert tried == pytest.approx(rates)
    assert (result["first_step"], result["limit_ms"], result["steps"]) == (1, 5, steps)
    assert result["rate"] == pytest.approx(found)
    assert [one["rate"] for one in conditions["steps"]] == [None, *tried, None]
    numbers = [r["step"] for r in rows(part, metric="started_at")]
    assert numbers == list(range(len(rates) + 2)), "steps of the search count among all"
    best = [(r["step"], r["value"]) for r in rows(part, metric="highest_rate")]
    assert best == ([] if step is None else [(step, pytest.approx(found))])
    # That a rate is missed is what a search looks for.
    where = f"c, steps 1 to {len(rates)}: "
    pairs = zip(conditions["warnings"], warned, strict=True)
    assert all(text.startswith(where + words) for text, words in pairs)


def test_a_search_counts_what_other_workers_have_measured(server, tmp_path):
    """The other worker served nothing at any rate."""
    live = job(ycsb(), tmp_path, "load").live
    arrived(live, *(f"c-{n}" for n in range(4)), "c-1-summary", "c-2-summary")
    for step in (1, 2):
        summaries = live / SUMMARIES / f"c-{step}"
        summaries.mkdir(parents=True)
        (summaries / "1.json").write_text(
            '{"intended": 1000, "succeeded": 0, "failed": 0, "indexes": [], "counts": []}'
        )
    part, conditions, found = search(tmp_path, 2, workers=2)
    assert [(one["rate"], one["met"]) for one in found["tried"]] == [(400, False), (100, False)]
    assert (found["rate"], found["bounded"], found["verified"]) == (None, True, False)
    assert not rows(part, metric="highest_rate")
    (warning,) = conditions["warnings"]
    assert warning.startswith("c, steps 1 to 2: no rate that was tried stays within percentile 99")


def test_the_sampler_looks_at_the_clients_and_at_the_store_of_its_own(
    server, tmp_path, monkeypatch
):
    seen = []

    class Seen(sampler.Sampler):
        def __init__(self, watched, **names):
            seen.append(watched)
            super().__init__(watched, **names)

    monkeypatch.setattr(worker, "Sampler", Seen)
    trial = ycsb(ONLY_READS, engine="sqlite", workers=2)
    stores = tuple(tmp_path / f"store{k}" for k in range(2))
    open_for(job(trial, tmp_path, "load"), "load-0")
    arrived(tmp_path / "live", "load-0", "c-0")
    for number, store in enumerate(stores):
        run(trial, tmp_path, "load", number, store=store, cluster=None)
    for number in range(2):
        run(trial, tmp_path, "c", number, stores=stores, cluster=None, routers=(4,))
    assert [one.store for one in seen] == [*((s,) for s in stores), stores, ()]
    assert [one.disk_path for one in seen] == [*stores, stores[0], stores[0]]
    assert [one.routers for one in seen] == [(), (), (4,), (4,)]
    assert all(list(one.clients) == [0] and one.embedded for one in seen)
    assert [one.host for one in seen] == [True, False, True, False]


def test_a_flush_that_a_killed_server_does_not_take_is_an_error_of_the_step(
    server, tmp_path, monkeypatch
):
    """And in other steps it ends the trial."""
    crash = {"crash": {"after": 0.01}}
    trial = ycsb({"name": "a", "params": {"operations": 20}, "steps": [{}, crash, {}]})
    run(trial, tmp_path, "load")
    orders = []
    monkeypatch.setattr(worker.StepFaults, "started", lambda *given: orders.append("kill"))
    monkeypatch.setattr(worker.StepFaults, "end", lambda *given: [])
    second = server.calls["flush"] + 2

    def once(verb, key):
        if verb == "flush" and server.calls["flush"] == second:
            raise EngineError("no server")

    server.before = once
    changed = run(trial, tmp_path, "a")
    assert orders == ["kill"] * 3
    assert [total(changed.result, "errors", step=n, second=None) for n in range(3)] == [0, 1, 0]
    assert "flush: no server" in said(changed.result)["warnings"][0]
    fail_on(server, "flush", EngineError("no server"))
    with pytest.raises(EngineError, match="no server"):
        run(trial, tmp_path, "a")
