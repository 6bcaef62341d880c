"""How a server of Valkey or Redis is started: its configuration and who may use it.

Lines: https://valkey.io/topics/valkey.conf/, access: https://valkey.io/topics/acl/
"""

from __future__ import annotations

from hashlib import sha256

from storewise.engines.contract.server import Credentials, Launch, Node
from storewise.engines.support.servers import fixed_options
from storewise.engines.valkey.settings import APPEND, ValkeySettings

PROGRAM = "valkey-server"
#: The port by which servers of a cluster talk to each other.
BUS = "bus"
#: The user that makes one cluster of the servers; it cannot read or write documents.
FORMER = "former"
#: What a client asks, and `scan` for whoever looks at a store that was kept.
_CLIENT = (
    "del discard exec get hdel hexists hgetall hset info multi ping scan set unwatch watch "
    "zadd zcard zrange zrem"
)
_FORMER = "cluster|addslotsrange cluster|info cluster|meet cluster|set-config-epoch info ping"


def launch_of(node: Node, settings: ValkeySettings) -> Launch:
    """How to start a node. Pure."""
    path = node.directory / "valkey.conf"
    return Launch(
        command=(str(node.installation.programs[PROGRAM]), str(path)),
        files={path.name: _config(node, settings), "users.acl": _users(node)},
        directories=("data",),
    )


def _config(node: Node, settings: ValkeySettings) -> str:
    lines: dict[str, object] = {
        **fixed_options(__package__),
        **APPEND[node.consistency],
        "bind": node.address,
        "port": node.port,
        "dir": _quoted(str(node.directory / "data")),
        "aclfile": _quoted(str(node.directory / "users.acl")),
        "maxmemory": settings.most_bytes(node.spec.memory_mb),
    }
    if node.spec.threads > 1:
        lines["io-threads"] = node.spec.threads
    if node.topology.nodes > 1:
        lines |= {
            "cluster-enabled": "yes",
            "cluster-port": node.ports[BUS],
            "cluster-announce-ip": node.address,
            # The documents of other servers stay in reach while one is down.
            "cluster-require-full-coverage": "no",
        }
    for key, value in settings.config.items():
        lines[key] = ("yes" if value else "no") if isinstance(value, bool) else value
    return "".join(f"{key} {value}\n" for key, value in lines.items())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _users(node: Node) -> str:
    """Who may do what: nobody without a name, and the session's users no more than they need."""
    secrets = node.credentials
    # The first snapshot of a store that keeps no log has its tables.
    client = f"{_CLIENT} save" if node.consistency == "memory" else _CLIENT
    users = [
        # As this user, who is off and has no password, Redis 7.0 reads the log when it starts; what
        # he may not do it leaves out, without an error that would end it.
        _user("default", "off", "~*", client),
        _user(secrets.user, f"on #{_hashed(secrets.password)}", "~*", client),
        _user(FORMER, f"on #{_hashed(secrets.key)}", "", _FORMER),
    ]
    return "".join(f"{user}\n" for user in users)


def _user(name: str, access: str, keys: str, commands: str) -> str:
    allowed = (f"+{command}" for command in commands.split())
    return " ".join(["user", name, "reset", access, *keys.split(), "-@all", *allowed])


def _hashed(password: str) -> str:
    return sha256(password.encode()).hexdigest()


def user_of(credentials: Credentials) -> tuple[str, str]:
    """The name and password of clients."""
    return credentials.user, credentials.password


def former_of(credentials: Credentials) -> tuple[str, str]:
    """The name and password of who forms the cluster."""
    return FORMER, credentials.key
