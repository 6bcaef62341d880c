"""Another user of the host beside each engine's servers: no way in, from their first socket on."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.needs import unavailable
from support.servers import mongodb_binaries
from support.servers.local import running
from support.servers.stores import SERVED, available
from support.users.doors import NOBODY, beside_an_intruder, need_another_user
from support.waiting import wait_until
from support.workspace import Workspace

from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine
from storewise.engines.sql.duckdb_reads import DuckSettings, open_duckdb
from storewise.errors import ConfigError
from storewise.session.coordination import cluster as clusters
from storewise.session.coordination.cleanup import remove_dead_runs
from storewise.session.coordination.cluster import NODES, StartedNode, publish
from storewise.session.coordination.liveness import Abort, abort, membership
from storewise.session.coordination.opening import open_session
from storewise.session.coordination.run import Run


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that everybody may enter and read, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


CELLS = {
    **{name: (name, Topology(memory_mb=256), {}) for name in ("postgres", "mariadb", "valkey")},
    "cassandra": ("cassandra", Topology(memory_mb=768), {}),
    "mongodb-set": ("mongodb", Topology(replicas=3, memory_mb=256), {}),
    "mongodb-sharded": ("mongodb", Topology(memory_mb=256), {"sharded": "always"}),
}


def emulated() -> dict[str, Any]:
    try:
        return {"home": str(mongodb_binaries.emulated())}
    except mongodb_binaries.Unavailable as error:
        unavailable(str(error))
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    "cell", [pytest.param(c, marks=[pytest.mark.all_cells] * (c != "postgres")) for c in CELLS]
)
def test_another_user_gets_in_nowhere(
    cell: str, open_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, shape, settings = CELLS[cell]
    result = emulated() if settings else available(name)
    with (
        beside_an_intruder(name, tmp_path / f"{cell}.jsonl", monkeypatch) as attempts,
        running(name, open_place / "session", shape, {**result, **settings}) as cluster,
    ):
        credentials = cluster.cluster.credentials
        assert credentials is not None
        secrets = Credentials.read(credentials)
        ports = {f"tcp {e.address} {e.port}" for e in cluster.cluster.endpoints}
        wait_until(lambda: attempts.went_round(ports), 120, "a try of all that he knows")
    assert ports <= attempts.reached(), "he came to each server, or this would show nothing"
    assert attempts.inside() == []
    assert secrets.password not in attempts.text
    assert secrets.key not in attempts.text


#: No more than docs/engines/hbase.md and docs/engines/riak.md say.
OPEN = {
    "hbase": {
        *("ZooKeeper: srvr", "HTTP: GET /jmx", "Thrift: list tables", "Thrift: write a row"),
        *("Thrift: read rows", "Thrift: delete a row"),
    },
    "riak": {
        *("protocol buffers: write a key", "protocol buffers: read a key"),
        "protocol buffers: delete a key",
        *("HTTP: GET /stats", "epmd: names"),
    },
}


# No registry has a Riak: this needs one that RIAK_HOME names.
@pytest.mark.parametrize(
    "name",
    [pytest.param("hbase", marks=pytest.mark.all_cells), *(["riak"] if "riak" in SERVED else [])],
)
def test_what_another_user_can_do_to_a_server_that_asks_nobody_is_what_we_say(
    name: str, open_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user may connect to the ports on loopback and read data and names, but may not
    read files, run programs, or learn Riak's cookie."""
    session, shape = open_place / "session", Topology(memory_mb=512)
    with (
        beside_an_intruder(name, tmp_path / f"{name}.jsonl", monkeypatch) as attempts,
        running(name, session, shape, available(name)) as cluster,
    ):
        endpoints = cluster.cluster.endpoints
        ports = {f"tcp {e.address} {e.port}" for e in endpoints}
        if name == "riak":
            (cookie,) = {path.read_text() for path in session.rglob(".erlang.cookie")}
            # Before Riak serves, it answers with errors: a whole round counts from here.
            done = '"protocol buffers: delete a key", "in": true'
            wait_until(lambda: attempts.log.read_text().count(done) > 1, 120, "a round of tries")
            wait_until(lambda: " 403 " in attempts.log.read_text(), 120, "a try by HTTP")
        else:
            wait_until(lambda: "list tables" in attempts.log.read_text(), 120, "a round of tries")
    assert ports <= attempts.reached()
    inside = {e["tried"] for e in attempts.entries if e["in"]}
    assert inside <= OPEN[name]
    assert inside & {"Thrift: list tables", "protocol buffers: write a key"}
    if name == "hbase":
        reached = attempts.reached()
        assert all(place.startswith(("tcp 127.", "unix", "process")) for place in reached)
        assert engine("hbase").guard == "nothing"
    else:
        for tried, answer in {"HTTP: MapReduce": " 403 ", "epmd: end it": "NO"}.items():
            assert any(answer in said for said in attempts.tried(tried)), tried
        assert len(cookie) > 20 and cookie not in attempts.text


def as_another_user(directory: Path, code: str, *words: object) -> str:
    """What a Python program of another user prints; the test ends here where nobody may be one."""
    need_another_user()
    command = ["/usr/bin/env", "python3", "-I", "-c", code, *map(str, words)]
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": {"PATH": "/usr/bin:/bin"}}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, **who)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: He makes the directory that he expects us to use, and links in it to a file that he wants
#: overwritten.
BE_FIRST = """
import os, sys
victim, directory = sys.argv[1:]
os.umask(0)
os.mkdir(directory)
for size in ("DEFAULT", *(f"S{32 * n}K" for n in range(1, 9))):
    os.symlink(victim, f"{directory}/duckdb_temp_storage_{size}-0.tmp")
    os.symlink(victim, f"{directory}/duckdb_temp_block-{size}.block")
"""


def test_what_duckdb_spills_is_where_nobody_else_can_be(
    open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, victim = open_place / "tmp", open_place / "precious"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_text("precious")
    expected = shared / f"storewise-duckdb-{os.getpid()}"
    as_another_user(shared, BE_FIRST, victim, expected)
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    connection = open_duckdb("duckdb", ":memory:", DuckSettings(memory_limit_mib=64))
    connection.execute("CREATE TABLE t AS SELECT hash(range) AS h FROM range(20000000)")
    spilled = connection.execute("SELECT path, size FROM duckdb_temporary_files()").fetchall()
    assert spilled
    for path, _ in spilled:
        directory = Path(path).parent
        assert directory.parent == shared and directory != expected
        assert directory.stat().st_mode & 0o777 == 0o700
        assert directory.stat().st_uid == os.geteuid()
    assert victim.read_text() == "precious"
    assert all(path.is_symlink() for path in expected.iterdir())
    connection.close()
    del connection
    assert list(shared.iterdir()) == [expected]


#: Tries to change, replace, remove and read all that is below a directory, and to add to it.
MEDDLE = """
import json, os, sys
done = []

def may(what, path, action):
    try:
        action()
    except OSError:
        return
    done.append(f"{what} {path}")

for directory, names, files in os.walk(sys.argv[1]):
    for name in ("abort", "stop", "cluster.json", "x"):
        may("add", f"{directory}/{name}", lambda: open(f"{directory}/{name}", "x").close())
    for path in [f"{directory}/{name}" for name in [*names, *files]]:
        may("list", path, lambda: os.listdir(path))
        may("rename", path, lambda: os.rename(path, path + ".old"))
        may("chmod", path, lambda: os.chmod(path, 0o777))
for path in sys.argv[2:]:
    may("read", path, lambda: open(path).close())
    may("write", path, lambda: open(path, "a").close())
    may("remove", path, lambda: os.unlink(path))
    may("replace", path, lambda: os.symlink("/nowhere", path))
print(json.dumps(sorted(done)))
"""


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_what_directs_a_run_is_its_user_s_alone(open_place: Path, mask: int) -> None:
    results = open_place / "results" / "s"
    results.mkdir(parents=True)
    live = results / "live" / "t"
    before = os.umask(mask)
    try:
        run = Run(results)
        run.start()
        live.mkdir(parents=True)  # as Snakemake makes it for its job
        open_session(results, "t", run.id, 1, logging.getLogger("t"), servers=True)
        publish(live, NODES, "data0", StartedNode("data0", "h", "/x"))
        with membership(live, "node.data0"):
            abort(live, Abort("over", failure=True))
            (live / "stop").touch()
            formed = clusters.FormedCluster((), {}, {}, 0.0, 0.0)
            clusters.write_cluster(live / clusters.CLUSTER, formed)
            files = [path for path in results.rglob("*") if path.is_file()]
            done = json.loads(as_another_user(open_place, MEDDLE, results, *files))
    finally:
        os.umask(before)
    assert len(files) >= 8, "there was something to be forged"
    assert done == []
    run.end()


def test_leases_and_live_trials_that_somebody_else_has_made_are_not_believed(
    open_place: Path,
) -> None:
    """Old code removed whatever directory they named."""
    results = open_place / "results"
    results.mkdir()
    results.chmod(0o777)
    as_another_user(open_place, "import os, sys; os.makedirs(sys.argv[1])", results / "live" / "t")
    for begin in (lambda: remove_dead_runs(results, print), Run(results).start):
        with pytest.raises(ConfigError, match=rf"{results}/live belongs to user nobody"):
            begin()
    assert (results / "live" / "t").is_dir()


@pytest.mark.parametrize("command", ["snakemake", "storewise"])
def test_a_run_is_refused_where_every_user_may_write(open_place: Path, command: str) -> None:
    place = Workspace(open_place / "work")
    place.directory.mkdir()
    place.write_study("workload: ycsb\nengines: [sqlite]\nphases:\n  - load: {recordcount: 20}\n")

    def run() -> subprocess.CompletedProcess[str]:
        if command == "snakemake":
            return place.snakemake(umask=0)
        return place.storewise("run", "s.yaml", umask=0)

    assert run().returncode == 0
    made = [path for path in place.directory.rglob("*") if not path.is_symlink()]
    assert [path for path in made if path.stat().st_mode & 0o002] == [], "what we make is not"
    shutil.rmtree(place.results / "trials")
    for open_to_all in (".", ".snakemake/scripts", "results/s/logs"):
        path = place.directory / open_to_all
        mode = path.stat().st_mode
        path.chmod(0o777)
        done = run()
        text = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0
        assert f"every user may write to {path}, and so replace files of the run" in text
        path.chmod(mode)
    snakemake = place.directory / ".snakemake"
    snakemake.chmod(0o777)
    as_another_user(open_place, "import os, sys; os.mkdir(sys.argv[1])", snakemake / "theirs")
    done = run()
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0 and f"{snakemake}/theirs belongs to user nobody" in text
    assert place.left_behind() == []
