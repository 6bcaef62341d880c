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

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from storewise.engines.cassandra.cluster import drop_other_roles
from storewise.engines.cassandra.connection import FAILURES, node_session
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError
from storewise.processes import dies_with_parent

#: The role that Cassandra makes by itself, with a password that everybody knows.
_DEFAULT = Credentials("cassandra", "cassandra", key="")
_READY_SECONDS = 180.0


def main() -> None:
    plan_file = Path(sys.argv[1])
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    endpoint = Endpoint("data", 0, socket.gethostname(), "127.0.0.1", plan["port"])
    key = Path(plan["key"])
    key.touch(mode=0o600)
    key.write_bytes(new_key())
    tls = SSLContext(PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.load_cert_chain(key)
    tls.load_verify_locations(key)
    user = Credentials(plan["user"], plan["password"], key="")
    server = subprocess.Popen(
        plan["command"],
        cwd=plan_file.parent,
        stdin=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(),
    )

    def pending_reason() -> str | None:
        if server.poll() is not None:
            raise EngineError(f"the server ended with status {server.returncode}")
        try:
            with node_session(endpoint, _DEFAULT, tls) as session:
                session.execute(
                    f'CREATE ROLE IF NOT EXISTS "{user.user}" WITH PASSWORD = '
                    f"'{user.password}' AND SUPERUSER = true AND LOGIN = true"
                )
            with node_session(endpoint, user, tls) as session:
                drop_other_roles(session, user)
        except FAILURES as error:
            return str(error)
        return None

    try:
        wait_until(pending_reason, _READY_SECONDS, "no user for the session was made")
    except EngineError as error:
        sys.exit(f"first start: {error}")
    finally:
        # What it was told is in its commit log on disk, as after a crash: an end in order would
        # take seconds.
        server.kill()
        server.wait()


def new_key() -> bytes:
    """A private key and its certificate, which both sides present and trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "storewise")])
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        # Clocks of hosts may differ; the key goes with the node's directory.
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=365),
    ).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


if __name__ == "__main__":
    main()
