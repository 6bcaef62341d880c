"""Studies of servers: their factors, what is refused when one is read, and what a host can run."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fake_time import FakeTime
from harness import Workspace, wait_until

from storewise.config import Study, load_study
from storewise.doctor import examine
from storewise.engines.registry import ENGINES
from storewise.errors import Aborted, ConfigError, EngineError, StorewiseError
from storewise.metrics.schema import read_part
from storewise.runner import slots_needed
from storewise.session.cluster import (
    STOP,
    gone_nodes,
    make_credentials,
    node_jobs,
    ready_nodes,
    started_nodes,
)
from storewise.session.form import FormJob, run_form
from storewise.session.live import Abort, Session, abort, read_abort
from storewise.session.node import reserve_of, run_node
from storewise.session.node_place import NodeJob
from storewise.trial import Phase, Trial

BASE = """\
inputs: {paths: data}
engines: [sqlite, postgres, mongodb]
factors: {nodes: [1, 2]}
phases:
  - write
  - read: {operations: 100}
"""


def study(tmp_path: Path, text: str = BASE) -> Study:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return load_study(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        study(tmp_path, text)
    return str(error.value)


def test_factors_of_servers_do_not_multiply_embedded_trials(tmp_path: Path) -> None:
    trials = study(tmp_path).trials()
    assert sorted((t.engine, t.nodes) for t in trials) == [
        ("mongodb", 1),
        ("mongodb", 2),
        ("postgres", 1),
        ("postgres", 2),
        ("sqlite", 1),
    ]
    plain = study(tmp_path, BASE.replace("factors: {nodes: [1, 2]}\n", "")).trials()
    assert {t.id for t in plain if t.engine == "sqlite"} <= {t.id for t in trials}
    assert all("nodes" not in t.factors for t in trials if t.engine == "sqlite")


def test_the_nodes_of_a_trial(tmp_path: Path) -> None:
    found = {(t.engine, t.nodes): [s.name for s in node_jobs(t)] for t in study(tmp_path).trials()}
    assert found["sqlite", 1] == []
    assert found["postgres", 2] == ["data0", "data1"]
    assert found["mongodb", 1] == ["data0"]
    # Routers live on the worker hosts unless the study says otherwise.
    assert found["mongodb", 2] == ["config0", "data0", "data1"]
    text = BASE.replace("[sqlite, postgres, mongodb]", "[mongodb]")
    text = text.replace(
        "{nodes: [1, 2]}", "{nodes: 2, routers: 2, replicas: 3, node_memory_mb: 512}"
    )
    (trial,) = study(tmp_path, text).trials()
    names = [s.name for s in node_jobs(trial)]
    assert names.count("router1") == 1 and len(names) == 1 + 2 * 3 + 2
    assert {s.memory_mb for s in node_jobs(trial) if s.role == "data"} == {512}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("nodes: [1, 2]", "nodes: [0]"), ["line 3", "factors.nodes", "from 1", "0"]),
        (("nodes: [1, 2]", "nodes: two"), ["line 3", "factors.nodes", "'two'"]),
        (("nodes: [1, 2]", "node: 2"), ["line 3", "did you mean 'nodes'"]),
        (("nodes: [1, 2]", "node_memory_mb: 1"), ["factors.node_memory_mb", "from 64"]),
        (
            ("nodes: [1, 2]", "replicas: 3"),
            ["factors.replicas", "exclude: [{engine: postgres, replicas: 3}]"],
        ),
        (("[sqlite, postgres, mongodb]", "[sqlite]"), ["factors.nodes", "embedded"]),
        (("inputs:", "allow_open_ports: maybe\ninputs:"), ["allow_open_ports", "true or false"]),
        (
            ("[sqlite, postgres, mongodb]", "{postgres: {hoem: /opt}}"),
            ["engines.postgres.hoem", "did you mean 'home'"],
        ),
    ],
)
def test_bad_studies_of_servers(tmp_path: Path, change: tuple[str, str], parts: list[str]) -> None:
    message = refusal(tmp_path, BASE.replace(*change))
    for part in parts:
        assert part in message, message


def test_the_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POSTGRES", "MARIADB", "MONGODB"):
        monkeypatch.setenv(f"STOREWISE_{name}_BIN", str(tmp_path))
    found = {f.name: f for f in examine()}
    assert set(ENGINES) < set(found)
    for name in ("postgres", "mariadb", "mongodb"):
        assert not found[name].runs
        assert str(tmp_path) in found[name].advice, found[name].advice
        assert ";" in found[name].advice, "what to do stands behind the reason"
    assert found["sqlite"].runs and found["sqlite"].version
    assert found["snakemake-executor-plugin-slurm"].runs
    command = [str(Path(sys.executable).parent / "storewise"), "doctor"]
    done = subprocess.run([*command, "postgres"], capture_output=True, text=True)
    assert done.returncode == 1 and "no " in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert {json.loads(line)["name"] for line in done.stdout.splitlines()} == set(found)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The live directory of a trial of the engine `tcp`."""
    monkeypatch.setitem(ENGINES, "tcp", "tcp_engine:TcpEngine")
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
        live,
        live.parent / "node.data0.parquet",
        live.parent / "data0.server.log",
        live.parent / "kept",
        **changes,  # type: ignore[arg-type]
    )


def run(job: NodeJob, clock: Callable[[], float] = time.monotonic) -> None:
    """A node in this process, which ends when its trial is aborted."""

    def check() -> None:
        if (job.live / "abort").exists():
            raise Aborted(read_abort(job.live / "abort").reason)

    def tell(error: BaseException) -> None:
        abort(job.live, Abort(str(error), own=True))

    run_node(job, SESSION, check, logging.getLogger("node"), tell, clock=clock)


def over_when_ready(job: NodeJob) -> Callable[[], float]:
    """A clock (s) by which a wall time of an hour is over as soon as the node answers."""
    return lambda: 3600.0 if job.node in ready_nodes(job.live) else 0.0


def meanwhile(job: NodeJob) -> threading.Thread:
    thread = threading.Thread(target=run, args=(job,))
    thread.start()
    wait_until(lambda: "data0" in ready_nodes(job.live), 20, "the node is ready")
    return thread


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
    monkeypatch.setattr("storewise.session.node.address_of", lambda *given: "192.0.2.1")
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
    abort(live, Abort("a worker failed", own=True))
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
    form = FormJob(both, live, live / "cluster.json", live.parent)
    with pytest.raises(StorewiseError, match=r"data1 never started .*data0 on host \S+ is nearly"):
        run_form(
            form,
            SESSION,
            lambda: None,
            logging.getLogger("form"),
            clock=own_time.clock,
            sleep=own_time.sleep,
        )
    # Nine tenths of the time for which it may serve; what is left is enough for nothing.
    served = 3600 - reserve_of(3600)
    assert 0.9 * served < sum(own_time.sleeps) < 0.9 * served + 0.4
    (live / STOP).touch()
    thread.join(20)


def test_more_nodes_and_workers_than_can_run_at_once_are_refused(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(
        BASE.replace("nodes: [1, 2]", "nodes: 9, workers: 2").replace(", mongodb", "")
    )
    done = place.snakemake("--cores", "2", timeout=100)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "has 9 nodes and 2 workers that run together, but only 6 jobs can run at once" in text
    assert "use --cores 7 or more" in text
    assert place.left_behind() == []


def test_sessions_that_are_live_at_once_must_fit_together(tmp_path: Path) -> None:
    """One of them would fit, but two would each hold what the other one waits for."""
    place = Workspace(tmp_path)
    place.copy_inputs()
    text = BASE.replace("nodes: [1, 2]", "nodes: 2, workers: 2").replace(", mongodb", "")
    place.write_study(text + "live_sessions: 2\nrepeats: 2\n")
    done = place.snakemake("--cores", "2", timeout=100)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "(8 jobs with those of 1 more, by `live_sessions`), but only 6 jobs can run" in text
    assert "use --cores 4 or more" in text
    assert slots_needed(load_study(str(tmp_path / "s.yaml"))) >= 4
    assert place.left_behind() == []
