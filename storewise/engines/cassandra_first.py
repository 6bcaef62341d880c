"""data0's first start: alone, on loopback, to make the session's user.

A new Cassandra has one role, ``cassandra``, whose password everybody knows. A node that listens on
a network must never have it, so this program starts the node's server on 127.0.0.1, puts the
session's user in the place of that role, and ends the server; then the node starts for all.

``python -m storewise.engines.cassandra_first PLAN`` with the file that `cassandra_config` writes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from storewise.engines.base import Endpoint
from storewise.engines.cassandra_cluster import FAILURES, first_user, greets, make_user, words_of
from storewise.engines.server import Credentials
from storewise.errors import EngineError
from storewise.processes import dies_with_parent

_LOOPBACK = "127.0.0.1"
_READY_SECONDS = 180.0
_STOP_SECONDS = 60.0
_POLL = 0.2


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        run(plan)
    except EngineError as error:
        sys.exit(f"first start: {error}")


def run(plan: dict[str, Any]) -> None:
    """Start the server, make the user, end the server; EngineError where one of these fails."""
    native, gossip = _free_ports(2)
    yaml = Path(plan["yaml"])
    yaml.touch(mode=0o600)
    yaml.write_text(json.dumps(_alone(plan["values"], native, gossip)), encoding="utf-8")
    credentials = Credentials(plan["user"], plan["password"], key="")
    endpoint = Endpoint("data", 0, socket.gethostname(), _LOOPBACK, native, {"gossip": gossip})
    server = subprocess.Popen(
        plan["command"], stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent()
    )

    def check() -> None:
        if server.poll() is not None:
            raise EngineError(f"the server ended with status {server.returncode}")

    try:
        until = time.monotonic() + _READY_SECONDS
        while not greets(endpoint):
            check()
            if time.monotonic() > until:
                raise EngineError(f"the server has not answered for {_READY_SECONDS:g} s")
            time.sleep(_POLL)
        login = first_user(endpoint, credentials, until, check)
        try:
            make_user(endpoint, login, credentials, nodes=1)
        except FAILURES as error:
            raise EngineError(f"no user for the session: {words_of(error)}") from error
        server.terminate()
        try:
            server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"the server has not ended in {_STOP_SECONDS:g} s") from error
    finally:
        server.kill()
        server.wait()
        yaml.unlink(missing_ok=True)


def _alone(values: dict[str, Any], native: int, gossip: int) -> dict[str, Any]:
    """The node's configuration with nothing but loopback in it."""
    seeds = [{"seeds": f"{_LOOPBACK}:{gossip}"}]
    provider = {**values["seed_provider"][0], "parameters": seeds}
    return {
        **values,
        "seed_provider": [provider],
        "listen_address": _LOOPBACK,
        "storage_port": gossip,
        "rpc_address": _LOOPBACK,
        "native_transport_port": native,
    }


def _free_ports(number: int) -> list[int]:
    """Ports that are free on loopback now; held until all are known, so that they differ."""
    probes = [socket.create_server((_LOOPBACK, 0)) for _ in range(number)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
