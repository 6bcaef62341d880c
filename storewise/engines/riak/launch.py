"""A node's configuration: riak.conf, advanced.config, and how it starts.

Keys: https://docs.riak.com/riak/kv/latest/configuring/reference/
"""

from __future__ import annotations

from hashlib import blake2b

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, Launch, Node
from storewise.engines.riak.settings import (
    SYNCED,
    RiakSettings,
    check_level,
    quorums_of,
    ring_size_of,
)
from storewise.engines.support.servers import fixed_options, resource
from storewise.errors import EngineError

#: Further ports of a node. The one of epmd is the first node's for all.
PORTS = ("http", "handoff", "epmd", "distribution", "cluster_manager")
_LEAST_LEVELDB_MB = 128


def node_name(index: int, address: str) -> str:
    """Of the Erlang node."""
    return f"riak{index + 1}@{address}"


def endpoint_name(endpoint: Endpoint) -> str:
    """Of the Erlang node behind an endpoint."""
    return node_name(endpoint.index, endpoint.address)


def cookie_of(credentials: Credentials) -> str:
    """What the nodes of a session know each other by."""
    return f"c{blake2b(credentials.key.encode(), digest_size=24, person=b'riak').hexdigest()}"


def launch_of(node: Node, settings: RiakSettings) -> Launch:
    """How to start a node. Pure."""
    check_level(settings, node.consistency)
    directory = node.directory
    name = node_name(node.spec.index, node.address)
    if any(letter in str(directory) for letter in " \t#'\"\\"):
        raise EngineError(
            f"{node.spec.name}: Riak's start script cannot work in {directory}: spaces, quotes, "
            "backslashes and # are not possible; name another `scratch` in the profile"
        )
    home = node.installation.programs["riak"].parent.parent
    private = "private" if settings.private_cookie else "visible"
    interface = "{" + node.address.replace(".", ",") + "}"
    cookie = cookie_of(node.credentials)
    files = {
        "etc/riak.conf": riak_conf(node, settings),
        "etc/advanced.config": ADVANCED.format(interface=interface),
        # Until the real one is made; the start script wants a name in it.
        "etc/vm.args": vm_args(name, "" if settings.private_cookie else cookie),
        ".erlang.cookie": cookie,
    }
    return Launch(
        command=(*_script("foreground"), "sh"),
        files=files,
        directories=("data", "log", "pipes"),
        steps=(
            (
                *_script("copy"),
                "sh",
                str(home),
                str(directory),
                private,
            ),
            (*_script("check"), "riak chkconfig"),
            (*_script("vm_args"), "sh", private, interface),
        ),
        environment=environment(node),
        stop_seconds=30.0,
    )


def _script(name: str) -> tuple[str, ...]:
    """A shell script of this folder, which says what it does; its name and arguments follow."""
    return ("sh", "-c", resource(__package__, f"{name}.sh"))


def vm_args(name: str, cookie: str) -> str:
    """Erlang's arguments as Riak's schema has them by default, those that matter; the cookie where
    it is not taken from a file."""
    lines = [f"-name {name}", *([f"-setcookie {cookie}"] if cookie else [])]
    lines += ["+A 64", "+P 262144", "+Q 262144", "+W w", "-env ERL_MAX_PORTS 262144"]
    return "\n".join(lines) + "\n"


def environment(node: Node) -> dict[str, str]:
    """Of the server and of the admin commands beside it; no secret is in it."""
    directory = node.directory
    first = next((peer for peer in node.peers if peer.index == 0), None)
    epmd = (first.ports if first is not None else node.ports).get("epmd", 0)
    return {
        # The cookie is read from here.
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": node.address,
        "PIPE_DIR": f"{directory}/pipes/",
        "RUNNER_ETC_DIR": f"{directory}/etc",
        "RUNNER_GEN_DIR": str(directory),
        "RUNNER_LOG_DIR": f"{directory}/log",
        "VMARGS_PATH": f"{directory}/etc/vm.args",
        # The word: else scripts use erl_call, which has the cookie on its command line and says
        # `ok` in place of what a command prints.
        "USE_NODETOOL": "true",
        # What a user has set for a Riak of his own must not reach ours.
        "RIAK_PATH": str(directory),
        "RELX_COOKIE": "",
        "ERL_DIST_PORT": "",
    }


def riak_conf(node: Node, settings: RiakSettings) -> str:
    """The text of riak.conf. Its paths are relative to the node's directory, where Riak starts."""
    address, ports = node.address, node.ports
    topology = node.topology
    quorums = quorums_of(settings, node.consistency)
    lines: dict[str, object] = {
        **fixed_options(__package__),
        "nodename": node_name(node.spec.index, address),
        "distributed_cookie": cookie_of(node.credentials),
        "listener.protobuf.internal": f"{address}:{node.port}",
        "listener.http.internal": f"{address}:{ports['http']}",
        "handoff.ip": address,
        "handoff.port": ports["handoff"],
        "mdc.cluster_manager": f"{address}:{ports['cluster_manager']}",
        "erlang.distribution.port_range.minimum": ports["distribution"],
        "erlang.distribution.port_range.maximum": ports["distribution"],
        "storage_backend": settings.backend,
        "anti_entropy": settings.anti_entropy,
        "ring_size": ring_size_of(settings, topology.nodes),
        "buckets.default.n_val": topology.replicas,
        "buckets.default.r": _number(quorums.r),
        "buckets.default.w": _number(quorums.w),
        "buckets.default.dw": _number(quorums.dw),
    }
    if settings.backend == "leveldb":
        memory = max(_LEAST_LEVELDB_MB, int(settings.memory_share * node.spec.memory_mb))
        lines["leveldb.maximum_memory"] = f"{memory}MB"
    if node.consistency == "durable":
        key, value = SYNCED[settings.backend]
        lines[key] = value
    for key, chosen in settings.config.items():
        lines[key] = str(chosen).lower() if isinstance(chosen, bool) else chosen
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def _number(quorum: int | str) -> int | str:
    """riak.conf has no word `one`."""
    return 1 if quorum == "one" else quorum


ADVANCED = """\
[
 {{kernel, [{{inet_dist_use_interface, {interface}}}]}},
 {{riak_core, [{{schema_dirs, ["./share/schema"]}}]}},
 {{setup, [{{home, "./data/setup"}}]}}
].
"""
