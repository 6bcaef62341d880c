"""The small files of a session and a run: what each says, and who is believed."""

import json
import logging
import os
import shutil
import stat
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from support.fake_time import FakeTime
from support.session import MadeHost

from storewise.engines.contract.engine import Endpoint
from storewise.errors import ConfigError, EngineError
from storewise.session.coordination import cluster, private, run_record
from storewise.session.coordination.lease import Lease, live_leases
from storewise.session.coordination.listing import live_sessions
from storewise.session.coordination.liveness import FINISHED, Process, Session
from storewise.session.coordination.private import (
    check_private,
    make_private,
    world_writable_parents,
)
from storewise.session.coordination.progress import JobProgress, ProgressFile, progress_of
from storewise.session.coordination.run import Run
from storewise.session.coordination.run_record import measuring_run, read_record
from storewise.session.coordination.system import SYSTEM
from storewise.study.trial import Phase, Trial

LOG = logging.getLogger("test")


def member(live, name, host):
    path = live / "members" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(Process(host, 7, 1.0))))
    return path


def node(live, name, host, *, ready=False, gone=False):
    cluster.publish(live, cluster.NODES, name, cluster.StartedNode(name, host, "/d"))
    endpoint = Endpoint("data", int(name[-1]), host, "10.0.0.7", 20001)
    if ready:
        record = cluster.ReadyNode(name, endpoint, "Tcp 1", "password", 1, 1.0)
        cluster.publish(live, cluster.ENDPOINTS, name, record)
    if gone:
        cluster.publish(live, cluster.GONE, name, cluster.GoneNode(name, host, 1.0, 7, ""))


def test_live_sessions_are_listed_with_their_jobs_and_nodes(tmp_path):
    here = MadeHost(own_time=FakeTime(start=5000.0))
    assert live_sessions(tmp_path, here) == []
    for study, trial, opened_at in (("s", "old", 4000.0), ("r", "new", 4990.0), ("s", "over", 1.0)):
        live = tmp_path / study / "live" / trial
        live.mkdir(parents=True)
        Session(trial, f"run-{study}", 25.0, opened_at).write(live)
    (live / FINISHED).touch()
    (tmp_path / "s" / "live" / "not opened yet").mkdir()
    lease = tmp_path / "s" / "leases" / "run-s"
    lease.parent.mkdir()
    lease.touch()
    os.utime(lease, (4996.0, 4996.0))
    live = tmp_path / "s" / "live" / "old"
    read, data = member(live, "read.1", "n1"), member(live, "data0", "n2")
    node(live, "data0", "n2")
    node(live, "data1", "n2", ready=True)
    node(live, "data2", "n2", ready=True, gone=True)
    old, new = live_sessions(tmp_path, here)
    times = (old.age, old.lease_age, old.lease_seconds)
    assert (old.id, old.run, *times) == ("s/old", "run-s", 1000.0, 4.0, 25.0)
    assert (old.phase, old.jobs, old.ending) == ("read", ("data0@n2", "read.1@n1"), "")
    assert [(n.node, n.host, n.state, n.address, n.guard) for n in old.nodes] == [
        ("data0", "n2", "starting", "", ""),
        ("data1", "n2", "answers", "10.0.0.7:20001", "password"),
        ("data2", "n2", "gone", "10.0.0.7:20001", "password"),
    ]
    assert (new.id, new.age, new.lease_age, new.phase) == ("r/new", 10.0, None, "opened")
    read.unlink()
    for name, phase in (("verify.0", "verify"), ("close", "close"), ("form", "form")):
        path = member(live, name, "n1")
        assert live_sessions(tmp_path, here)[0].phase == phase
        path.unlink()
    assert data.exists() and live_sessions(tmp_path, here)[0].phase == "between phases"


@pytest.mark.parametrize(
    ("host", "started", "renewed", "dead"),
    [
        ("here", 1.0, None, None),  # its process runs: late, whatever its lease says
        ("here", 2.0, None, 25.0),  # a later process with its pid
        ("far", 1.0, 24.0, None),
        ("far", 1.0, None, 25.0),
        ("broken", 1.0, 89.0, None),  # not to be read: as on a cluster
        ("broken", 1.0, None, 90.0),
    ],
)
@pytest.mark.parametrize("age", [0.0, 1e6, -1e6])
def test_whose_lease_counts(tmp_path, host, started, renewed, dead, age):
    here = MadeHost(own_time=FakeTime(start=2e6))
    path = tmp_path / "leases" / "r"
    path.parent.mkdir()
    Lease("r", Process(host, 1, started, boot="here "), 25.0).write(path.parent)
    if host == "broken":
        path.write_text("{")
    at = 2 * 10**15 - round(age * 10**9)
    os.utime(path, ns=(at, at))
    if renewed:
        here.own_time.after(renewed, path.touch)
    said = []
    assert live_leases(tmp_path, said.append, here) == ([] if dead else [path])
    assert here.own_time.now - 2e6 == pytest.approx(dead or renewed or 0, abs=0.21)
    assert [path.name in line for line in said] == [True] * len(said)
    assert any("is damaged: " in line for line in said) == (host == "broken")


def test_a_lease_of_another_run_is_told(tmp_path):
    here, far = (Process(name, 1, 1.0, boot="here ") for name in ("here", "far"))
    (tmp_path / "leases").mkdir()
    Lease("r", far, 25.0).write(tmp_path / "leases")
    other = str(measuring_run(tmp_path, system=MadeHost()))
    assert f"study {tmp_path.name} is measured here" in other
    assert "by process 1 on host far. It goes on" in other
    assert measuring_run(tmp_path, "r", system=MadeHost()) is None, "its own"
    (tmp_path / "leases" / "s").write_text("{}")
    assert "by run s, whose lease" in str(measuring_run(tmp_path, "r", system=MadeHost()))
    (tmp_path / "leases" / "s").unlink()
    Lease("z", here, 25.0).write(tmp_path / "leases")
    assert "by process 1 on host here." in str(measuring_run(tmp_path, "r", system=MadeHost()))


def test_a_run_s_record_tells_who_measures(tmp_path, monkeypatch):
    assert read_record(tmp_path) is None and measuring_run(tmp_path) is None
    own = Process.current()
    monkeypatch.setattr(run_record.time, "time", lambda: 1e9)
    trials = {"a": "sqlite", "b": "duckdb"}
    run_record.begin(tmp_path, "r", trials, ("b",), 2)
    record = read_record(tmp_path)
    assert (record.run, record.started, record.measuring) == ("r", 1e9, ("b",))
    assert (record.process, record.live_sessions, record.ended) == (own, 2, None)
    assert record.trials == trials
    assert measuring_run(tmp_path) is None, "not told of itself"
    # Another process, between two passes.
    parent = psutil.Process(os.getppid())
    other = replace(own, pid=parent.pid, started=SYSTEM.started(parent.pid))
    replace(record, process=other).write(tmp_path)
    since = f" since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(1e9))}"
    who = f"by process {other.pid} on host {own.host}{since}. It"
    assert who in str(measuring_run(tmp_path))
    for ended in ({"ended": 1e9}, {"process": replace(other, started=1.0)}):
        replace(record, process=other).write(tmp_path)
        replace(record, **ended).write(tmp_path)
        assert measuring_run(tmp_path) is None, "that one has ended"
    (tmp_path / "leases").mkdir()
    Lease("r", own, 25.0).write(tmp_path / "leases")
    assert since in str(measuring_run(tmp_path))
    replace(record, process=other).write(tmp_path)
    run_record.end(tmp_path, "why")
    assert read_record(tmp_path) == replace(record, process=other), "another process's"
    record.write(tmp_path)
    run_record.end(tmp_path, "why")
    assert read_record(tmp_path) == replace(record, ended=1e9, reason="why")
    (tmp_path / "run.json").write_text("{}")
    assert read_record(tmp_path) is None, "of another version"
    assert " since " not in str(measuring_run(tmp_path))


def test_progress_is_written_once_a_second_and_never_in_the_way(tmp_path, caplog):
    own_time = FakeTime()
    file = ProgressFile(tmp_path, "read.0", LOG, clock=own_time.clock)
    assert file.due() and progress_of(tmp_path) == {}
    first = JobProgress("read.0", "h", "works", 1.0, step=2, owners={"data0": 3.0})
    file.put(first)
    own_time.spend(0.999)
    assert not file.due()
    own_time.spend(0.001)
    assert file.due()
    second = replace(first, operations=7)
    file.put(second)
    place = tmp_path / "progress"
    os.utime(place / "read.0.json", (50.0, 50.0))
    (place / "other.json").write_text("{")
    assert progress_of(tmp_path) == {"read.0": (second, 50.0)}
    file.remove()
    file.remove()
    assert progress_of(tmp_path) == {}
    shutil.rmtree(place)
    place.touch()
    for _ in range(2):
        file.put(first)
    assert caplog.text.count("`storewise watch` will not see this job") == 1
    ProgressFile(tmp_path / "gone", "read.0", LOG).put(first)
    assert "gone" not in caplog.text, "a session that ends is no news"


def test_a_formed_cluster_is_told_as_it_was(tmp_path):
    ends = tuple(Endpoint("data", n, f"h{n}", f"10.0.0.{n}", 1) for n in range(2))
    versions = {"data0": "1", "data1": "1"}
    formed = cluster.FormedCluster(ends, versions, {"data0": "x"}, 5.0, 2.0)
    cluster.write_cluster(tmp_path / "cluster.json", formed)
    assert cluster.read_cluster(tmp_path / "cluster.json") == formed
    assert formed.server_versions() == {"server": "1"}
    mixed = replace(formed, versions={"data0": "1", "data1": "2"})
    assert mixed.server_versions() == {"server.data0": "1", "server.data1": "2"}
    trial = Trial(
        study="s", id="t", engine="postgres", workload="alignments", repeat=1, seed=1, factors={},
        consistency="relaxed", settings={"a": 1}, phases=[Phase(name="write")],
    )  # fmt: skip
    made = cluster.client_cluster(trial, tmp_path, formed, (replace(ends[0], role="router"),))
    assert [e.name for e in made.endpoints] == ["data0", "data1", "router0"]
    assert (made.engine, made.settings, made.consistency) == ("postgres", {"a": 1}, "relaxed")
    assert made.credentials == tmp_path / "credentials" / "secret.json"
    assert made.kinds == trial.kinds()
    assert cluster.server_engine(trial).name == "postgres"
    with pytest.raises(EngineError, match=r"^SQLite has no servers: it is embedded$"):
        cluster.server_engine(trial.model_copy(update={"engine": "sqlite"}))


@pytest.mark.parametrize(
    ("stamp", "offset"),
    # The second is stamped with the kernel's last tick.
    [(100.1, 0.0), (99.98, 0.0), (99.9, 0.2), (100.3, -0.2), (50.1, 50.0)],
)
def test_how_far_a_clock_is_ahead_of_the_file_system_s(tmp_path, monkeypatch, stamp, offset):
    readings = iter([100.0, 100.2])
    monkeypatch.setattr(cluster, "time", SimpleNamespace(time=lambda: next(readings)))
    real, path = Path.stat, tmp_path / ".clock.data0"

    def stamped(self, **options):
        return SimpleNamespace(st_mtime=stamp) if self == path else real(self, **options)

    monkeypatch.setattr(Path, "stat", stamped)
    assert cluster.clock_offset(tmp_path, "data0") == pytest.approx(offset)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_what_directs_a_run_is_closed_for_others(tmp_path):
    path = tmp_path / "leases"
    check_private(path)
    make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for mode, becomes in ((0o700, 0o700), (0o750, 0o700), (0o777, 0o700), (0o500, 0o500)):
        path.chmod(mode)
        make_private(path)
        assert stat.S_IMODE(path.stat().st_mode) == becomes
    path.rmdir()
    for make in (path.touch, lambda: path.symlink_to(tmp_path)):
        make()
        with pytest.raises(ConfigError, match=r"leases is no directory: remove it"):
            make_private(path)
        path.unlink()


def test_a_directory_of_somebody_else_is_not_believed(tmp_path, monkeypatch):
    path, uid = tmp_path / "live", os.geteuid()
    path.mkdir()
    monkeypatch.setattr(private.os, "geteuid", lambda: uid + 1)
    check_private(path)  # the file server gives us this number: our new files have it too
    assert list(tmp_path.iterdir()) == [path], "its probe is removed"
    (tmp_path / f".owner.{os.getpid()}").touch()  # nothing can be made there
    with pytest.raises(ConfigError, match=r"live belongs to user \S+: a run of that user, or file"):
        check_private(path)


def test_where_every_user_may_write_on_the_way_is_named(tmp_path):
    a, b, link = tmp_path / "a", tmp_path / "a" / "b", tmp_path / "link"
    b.mkdir(parents=True)
    link.symlink_to(a)

    def way(mode_of_a, mode_of_b):
        a.chmod(mode_of_a)
        b.chmod(mode_of_b)
        found = world_writable_parents([b / "not" / "yet", link / "x"])
        return [line for line in found if f"{tmp_path}" in line]

    assert way(0o755, 0o1777) == way(0o755, 0o775) == []
    assert way(0o755, 0o777) == [f"{b}"]
    assert way(0o777, 0o1775) == [f"{a}", f"{link}"]


def test_jobs_are_told_their_run(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    run = Run(tmp_path, id="r")
    run.tell_jobs(3)
    told = {"STOREWISE_RUN": "r", "STOREWISE_LIVE_SESSIONS": "3"}
    assert told.items() <= os.environ.items() and "PYTHONPATH" in os.environ
    assert run.lost() is None, "it has not started"
    run.start(pause=lambda seconds: True)
    assert run.lost() is None
    (tmp_path / "leases" / "r").unlink()
    assert f"{tmp_path} was removed or moved" in str(run.lost())
    run.end()
    assert run.lost() is None
