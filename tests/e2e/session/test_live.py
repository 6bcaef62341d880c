"""One live session, looked at from outside: who listens, who can read what, who may end it."""

import json
from contextlib import suppress

import psutil
import pytest
from support.waiting import exit_code, wait_until
from support.workspace import Workspace

#: At a low rate: it is there to be looked at, and shall leave the processors to those who look.
STUDY = """\
inputs: {paths: data}
engines: [postgres]
factors: {workers: 2, nodes: 2}
phases:
  - write: {batch_size: 1000}
  - read: {seconds: 600, rate: 20}
"""


pytestmark = [pytest.mark.slow, pytest.mark.needs("postgres")]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A run whose trial is in its read phase."""
    place = Workspace(tmp_path_factory.mktemp("live"))
    place.copy_inputs()
    place.write_study(STUDY)
    run = place.start()
    try:
        wait_until(lambda: place.working("read.1"), 120, "read.1 at work")
        yield place
        run.terminate()
        assert exit_code(run, 300) != 0
        wait_until(lambda: not place.processes(), 30, "the end of all processes")
        assert place.left_behind() == []
        assert list(place.results.glob("failures/*")) == [], "a run that is stopped: no failure"
    finally:
        for process in place.processes():
            process.kill()


def live_id(place):
    (directory,) = place.results.glob("live/*/")
    return f"s/{directory.name}"


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
    result = json.loads(path.read_text())
    for process in live.processes():
        shown = " ".join([*process.cmdline(), *process.environ().values()])
        assert not [name for name in ("password", "key") if result[name] in shown], process
    for file in live.directory.rglob("*"):
        # A server may remove a file meanwhile; others are sockets.
        with suppress(FileNotFoundError):
            content = file.read_bytes() if file.is_file() and file != path else b""
            assert result["password"].encode() not in content, file
            if file.stat().st_mode & 0o077:
                assert result["key"].encode() not in content, file
