"""Studies of servers: their factors, what is refused when one is read, and what a host can run."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.fake_time import FakeTime
from support.waiting import wait_until

from storewise.engines.registry import ENGINES
from storewise.errors import Aborted, ConfigError, EngineError, StorewiseError
from storewise.metrics.schema import read_part
from storewise.session.coordination.cluster import (
    LOADED,
    STOP,
    gone_nodes,
    make_credentials,
    ready_nodes,
    started_nodes,
)
from storewise.session.coordination.liveness import Abort, Session, abort, read_abort
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.form import run_form
from storewise.session.jobs.node import NodeJob, reserve_of, run_node
from storewise.study.trial import Phase, Trial


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The live directory of a trial of the engine `tcp`."""
    monkeypatch.setitem(ENGINES, "tcp", "support.tcp_engine:TcpEngine")
    directory = tmp_path / "live" / "t"
    directory.mkdir(parents=True)
    make_credentials(directory)
    yield directory


def trial(nodes: int = 1, **changes: object) -> Trial:
    return Trial(
        study="s",
        id="t",
        engine="tcp",
        workload="alignments",
        repeat=1,
        seed=1,
        factors={"engine": "tcp"},
        nodes=nodes,
        consistency="durable",
        **{"phases": [], **changes},  # type: ignore[arg-type]
    )


SESSION = Session("t", "run", 25.0, time.time())


def node_job(live: Path, trial: Trial, **changes: object) -> NodeJob:
    return NodeJob(
        trial,
        "data0",
        live.parent / "node.data0.parquet",
        live.parent / "data0.server.log",
        live.parent / "kept",
        **changes,  # type: ignore[arg-type]
    )


def run(job: NodeJob, clock: Callable[[], float] = time.monotonic) -> None:
    """A node in this process, which ends when its trial is aborted."""
    live = live_of(job)

    def check() -> None:
        if (live / "abort").exists():
            raise Aborted(read_abort(live / "abort").reason)

    def tell(error: BaseException) -> None:
        abort(live, Abort(str(error), failure=True))

    run_node(job, TrialJob(check, logging.getLogger("node"), live, SESSION, tell), clock=clock)


def live_of(job: NodeJob) -> Path:
    return job.result.parent / "t"


def over_when_ready(job: NodeJob) -> Callable[[], float]:
    """A clock (s) by which a wall time of an hour is over as soon as the node answers."""
    return lambda: 3600.0 if job.node in ready_nodes(live_of(job)) else 0.0


def meanwhile(job: NodeJob) -> threading.Thread:
    thread = threading.Thread(target=run, args=(job,))
    thread.start()
    wait_until(lambda: "data0" in ready_nodes(live_of(job)), 20, "the node is ready")
    return thread


def test_files_are_counted_when_the_load_has_ended(live: Path) -> None:
    job = node_job(live, trial())
    thread = meanwhile(job)
    directory = Path(started_nodes(live)["data0"].directory)
    before = len(list(directory.rglob("*")))
    (directory / "table").touch()
    (directory / "log").touch()
    (directory / "log").unlink()
    (live / LOADED).touch()
    (live / STOP).touch()
    thread.join(20)
    rows = {r["metric"]: r for r in read_part(job.result)[0].to_pylist() if r["second"] is None}
    assert rows["store_inodes"]["value"] == 1 + before + 1, "the directory itself counts"
    assert rows["store_inodes"]["node"] == "data0"
    seen = {name: rows[name]["value"] for name in ("files_created", "files_removed")}
    assert seen == {"files_created": 2, "files_removed": 1}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("scratch", ["", "$PLACE/scratch"])
def test_a_node_from_start_to_end(
    live: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, scratch: str
) -> None:
    monkeypatch.setenv("PLACE", str(live.parent))
    job = node_job(live, trial(keep_data=keep), scratch=scratch)
    thread = meanwhile(job)
    ready = ready_nodes(live)["data0"]
    assert ready.endpoint.address == "127.0.0.1" and ready.version == "Tcp 1"
    assert psutil.pid_exists(ready.server_pid)
    directory = Path(started_nodes(live)["data0"].directory)
    assert directory.is_dir() and ("scratch" in str(directory)) == bool(scratch)
    (live / STOP).touch()
    thread.join(20)
    gone = gone_nodes(live)["data0"]
    assert gone.bytes > 0
    assert directory.is_dir() == keep == bool(gone.kept)
    table, conditions = read_part(job.result)
    rows = {r["metric"]: r["value"] for r in table.to_pylist() if r["second"] is None}
    assert {"queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes"} <= set(rows)
    assert rows["clock_offset"] == 0.0, "its file system is its own"
    assert set(table["node"].cast("string").to_pylist()) <= {"data0", None}
    assert conditions["versions"] == {"server": "Tcp 1"}
    assert conditions["kept"] == gone.kept


def test_an_engine_without_authentication_stays_on_loopback(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storewise.session.jobs.node.address_of", lambda *given: "192.0.2.1")
    with pytest.raises(ConfigError, match=r"nothing guards.*allow_open_ports: true"):
        run(node_job(live, trial(), interface="auto"))
    assert not list(live.glob("nodes/*"))


def test_what_a_profile_may_get_wrong(live: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scratch: '\$NOWHERE/x' names a variable"):
        run(node_job(live, trial(), scratch="$NOWHERE/x"))
    with pytest.raises(ConfigError, match="no 'eth77'; it has"):
        run(node_job(live, trial(), interface="eth77"))
    with pytest.raises(ConfigError, match="ports: '9-5'"):
        run(node_job(live, trial(), ports="9-5"))
    with pytest.raises(ConfigError, match="scratch: 'tmp/x' is no absolute path"):
        run(node_job(live, trial(), scratch="tmp/x"))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorewiseError, match=r"cannot make .*Not a directory.*`scratch`"):
        run(node_job(live, trial(), scratch=str(file)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("keep", [False, True])
def test_a_node_that_fails_leaves_nothing_on_its_scratch(
    live: Path, tmp_path: Path, keep: bool
) -> None:
    scratch = tmp_path / "scratch"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        with pytest.raises(EngineError, match="no free port"):
            run(node_job(live, trial(keep_data=keep), scratch=str(scratch), ports=taken))
    assert list(scratch.iterdir()) == []
    thread = meanwhile(node_job(live, trial(keep_data=keep), scratch=str(scratch)))
    assert len(list(scratch.iterdir())) == 1
    abort(live, Abort("a worker failed", failure=True))
    thread.join(20)
    assert list(scratch.iterdir()) == []


def test_a_node_names_the_workers_that_never_started(live: Path) -> None:
    two = trial(workers=2, phases=[Phase(name="write")])
    job = node_job(live, two, runtime_minutes=60)
    arrived = live / "barriers" / "write-0"
    arrived.mkdir(parents=True)
    (arrived / "0").touch()
    with pytest.raises(StorewiseError, match=r"wall time .*, and write\.1 had not started yet"):
        run(job, over_when_ready(job))


def test_a_node_names_what_its_cluster_waits_for(live: Path) -> None:
    """With the cluster full of other jobs, not even `form` may run to say it."""
    job = node_job(live, trial(nodes=2), runtime_minutes=60)
    with pytest.raises(StorewiseError, match=r"wall time .*, and data1, form had not started yet"):
        run(job, over_when_ready(job))


def test_a_node_respects_its_wall_time(live: Path) -> None:
    assert reserve_of(40) == 10 and reserve_of(86400) == 90
    job = node_job(live, trial(), runtime_minutes=60)
    with pytest.raises(StorewiseError, match="data0 stopped in order before its wall time"):
        run(job, over_when_ready(job))
    assert "wall time" in read_abort(live / "abort").reason
    assert "data0" in gone_nodes(live), "its server has ended in order"


def test_forming_names_the_nodes_that_never_started(live: Path) -> None:
    """One of two nodes runs and uses its wall time up; the other one is still queued."""
    both = trial(nodes=2, phases=[Phase(name="write")])
    job = node_job(live, both, runtime_minutes=60)
    thread = meanwhile(job)
    own_time = FakeTime(start=started_nodes(live)["data0"].started_at)
    with pytest.raises(StorewiseError, match=r"data1 never started .*data0 on host \S+ is nearly"):
        run_form(
            both,
            live / "cluster.json",
            live.parent,
            TrialJob(
                *(lambda: None, logging.getLogger("form"), live, SESSION), tell=lambda error: None
            ),
            clock=own_time.clock,
            sleep=own_time.sleep,
        )
    # Nine tenths of the time for which it may serve; what is left is enough for nothing.
    served = 3600 - reserve_of(3600)
    assert 0.9 * served < sum(own_time.sleeps) < 0.9 * served + 0.4
    (live / STOP).touch()
    thread.join(20)
