"""One live session, looked at from outside: who listens, who can read what, who may end it."""

import json
import os
from pathlib import Path

import psutil
import pytest
from support.waiting import exit_code, wait_until
from support.workspace import Workspace

#: At a low rate: it is there to be looked at, and shall leave the processors to those who look.
STUDY = """\
inputs: {paths: data}
engines: [postgres, mariadb]
factors: {workers: 2, nodes: 2}
phases:
  - write: {batch_size: 1000}
  - read: {seconds: 600, rate: 20}
"""


pytestmark = pytest.mark.slow
ENGINES = [
    pytest.param("postgres", marks=pytest.mark.needs("postgres")),
    pytest.param("mariadb", marks=[pytest.mark.needs("mariadb"), pytest.mark.all_cells]),
]


@pytest.fixture(scope="module", params=ENGINES)
def live(request, tmp_path_factory):
    """A run whose trial is in its read phase."""
    place = Workspace(tmp_path_factory.mktemp("live"))
    place.copy_inputs()
    place.write_study(STUDY.replace("[postgres, mariadb]", f"[{request.param}]"))
    run = place.start()
    try:
        wait_until(lambda: place.working("read.1"), 120, "read.1 at work")
        yield place
        ended = place.storewise("sessions", "--end", live_id(place))
        assert ended.returncode == 0, ended.stderr
        assert "has ended" in ended.stderr
        assert exit_code(run, 300) != 0
        wait_until(lambda: not place.processes(), 30, "the end of all processes")
        assert place.left_behind() == []
        assert list(place.results.glob("failures/*")) == [], "ended by hand: no failure"
    finally:
        for process in place.processes():
            process.kill()


def live_id(place):
    (directory,) = place.results.glob("live/*/")
    return f"s/{directory.name}"


def secrets(place):
    (path,) = place.results.glob("live/*/credentials/secret.json")
    result = json.loads(path.read_text())
    return result


def test_the_session_is_listed_and_listens_on_loopback_only(live):
    result = live.storewise("sessions", "--json")
    (session,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert session["id"] == live_id(live)
    assert session["phase"] == "read"
    assert session["lease_age"] < session["lease_seconds"]
    assert [node["node"] for node in session["nodes"]] == ["data0", "data1"]
    assert {node["state"] for node in session["nodes"]} == {"answers"}
    assert all("password" in node["guard"] for node in session["nodes"])
    published = {node["address"] for node in session["nodes"]}
    text = live.storewise("sessions").stdout
    assert all(address in text for address in published)
    listening = {
        f"{connection.laddr.ip}:{connection.laddr.port}"
        for process in live.processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == published, "no port beside the known ones"
    assert all(address.startswith("127.0.0.1:") for address in listening)


def test_secrets_are_nowhere_but_in_their_file(live):
    (path,) = live.results.glob("live/*/credentials/secret.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    result = secrets(live)
    for process in live.processes():
        shown = " ".join([*process.cmdline(), *process.environ().values()])
        assert result["password"] not in shown, process
        assert result["key"] not in shown, process
    for root, _, names in os.walk(live.directory):
        for name in names:
            file = Path(root) / name
            if file == path or not file.is_file():  # a socket
                continue
            try:
                content = file.read_bytes()
            except FileNotFoundError:  # a server removed it meanwhile
                continue
            assert result["password"].encode() not in content, file
            if file.stat().st_mode & 0o077:
                assert result["key"].encode() not in content, file


def test_node_directories_are_private(live):
    for directory in live.results.glob("live/*/nodes/*/"):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_second_snakemake_does_not_disturb_it(live):
    leases = sorted(p.name for p in live.results.glob("leases/*"))
    servers = [live.server(name) for name in ("data0", "data1")]
    live.snakemake("-n")
    assert live.working("read.1")
    assert [live.server(name) for name in ("data0", "data1")] == servers
    assert sorted(p.name for p in live.results.glob("leases/*")) == leases
