"""data0's first start: alone and behind a key, to make the session's user.

A new Cassandra has one role, ``cassandra``, whose password everybody knows, and on loopback, too,
there are other users. So this program starts the node's server on 127.0.0.1 where it takes only who
has the key that was made for this node (TLS with certificates of both sides), puts the
session's user in the place of that role, and ends the server; then the node starts for all.

``python -m storewise.engines.cassandra.bootstrap PLAN`` with the file that `launch` writes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from storewise.engines.cassandra.cluster import (
    DEFAULT_ROLE,
    FAILURES,
    ask,
    dialled,
    drop_others,
    words_of,
)
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError
from storewise.processes import dies_with_parent

_LOOPBACK = "127.0.0.1"
_READY_SECONDS = 180.0


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
    key = Path(plan["key"])
    credentials = Credentials(plan["user"], plan["password"], key="")
    endpoint = Endpoint("data", 0, socket.gethostname(), _LOOPBACK, native, {"gossip": gossip})
    server: subprocess.Popen[bytes] | None = None
    try:
        _write(key, _new_key())
        _write(yaml, json.dumps(_alone(plan["values"], plan["closed"], native, gossip)))
        tls = _trusting(key)
        server = subprocess.Popen(
            plan["command"], stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent()
        )
        _make_user(endpoint, credentials, tls, server)
        # What it was told is in its commit log on disk, as after a crash: an end in order would
        # take seconds.
    finally:
        if server is not None:
            server.kill()
            server.wait()
        yaml.unlink(missing_ok=True)


def _make_user(
    endpoint: Endpoint, credentials: Credentials, tls: SSLContext, server: subprocess.Popen[bytes]
) -> None:
    """The session's user in the place of the default role, as soon as the server has that."""

    def lacking() -> str | None:
        if server.poll() is not None:
            raise EngineError(f"the server ended with status {server.returncode}")
        try:
            with dialled(endpoint, DEFAULT_ROLE, DEFAULT_ROLE, tls) as connection:
                ask(
                    connection,
                    f'CREATE ROLE IF NOT EXISTS "{credentials.user}" WITH PASSWORD = '
                    f"'{credentials.password}' AND SUPERUSER = true AND LOGIN = true",
                )
            with dialled(endpoint, credentials.user, credentials.password, tls) as connection:
                drop_others(connection, credentials)
        except FAILURES as error:
            return words_of(error)
        return None

    wait_until(lacking, _READY_SECONDS, "no user for the session was made")


def _alone(
    values: dict[str, Any], closed: dict[str, Any], native: int, gossip: int
) -> dict[str, Any]:
    """The node's configuration with nothing but loopback in it, and no way in without the key."""
    seeds = [{"seeds": f"{_LOOPBACK}:{gossip}"}]
    provider = {**values["seed_provider"][0], "parameters": seeds}
    free = {name: value for name, value in values.items() if not name.startswith("commitlog_sync")}
    return {
        **free,
        "commitlog_sync": "batch",
        "seed_provider": [provider],
        "listen_address": _LOOPBACK,
        "storage_port": gossip,
        "rpc_address": _LOOPBACK,
        "native_transport_port": native,
        "client_encryption_options": {"enabled": True, "optional": False, **closed},
        "server_encryption_options": {"internode_encryption": "all", **closed},
    }


def _new_key() -> str:
    """A private key and its certificate, which both sides show and both sides trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "storewise")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of hosts may differ; the key goes with the node's directory.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (private + certificate.public_bytes(Encoding.PEM)).decode()


def _trusting(key: Path) -> SSLContext:
    """For a client with the key, to a server with the same one."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_cert_chain(key)
    context.load_verify_locations(key)
    return context


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _free_ports(number: int) -> list[int]:
    """Ports that are free on loopback now; held until all are known, so that they differ."""
    probes = [socket.create_server((_LOOPBACK, 0)) for _ in range(number)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
