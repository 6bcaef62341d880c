"""The contract of engines whose stores are servers: nodes, launch, readiness, bootstrap.

The engine defines commands and checks; `storewise.session` starts, watches and stops servers.
`launch` is pure: it returns files and command lines and touches nothing.
"""

from __future__ import annotations

import json
import secrets
import signal
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from storewise.engines.contract.engine import Cluster, Endpoint, Engine, EngineSettings
from storewise.errors import EngineError

#: Names of environment modules. A path or an option could run any module file.
_MODULE_NAME = r"^[A-Za-z0-9_+][\w.+@-]*(/[A-Za-z0-9_+][\w.+@-]*)*$"


class ServerSettings(EngineSettings):
    """Settings that every engine with servers has."""

    home: str | None = Field(
        default=None,
        description="directory of the installation (it, or its bin/ or sbin/, holds the programs)",
    )
    module: str | None = Field(
        default=None,
        pattern=_MODULE_NAME,
        description="environment module to load first, such as `postgresql/16`",
    )


@dataclass(frozen=True, slots=True)
class Topology:
    """The shape of a cluster as a study's factors give it."""

    nodes: int = 1
    """Data nodes that share the documents (shards)."""
    replicas: int = 1
    """Copies of each document, where the engine has replicas."""
    routers: int = 0
    """Routers as jobs of their own; 0: one on each worker host, where the engine has routers."""
    threads: int = 1
    """Processors of each data node."""
    memory_mb: int = 1024
    """Memory of each data node, MiB; caches are a share of it."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One server process of a session."""

    role: str
    index: int
    threads: int = 1
    memory_mb: int = 1024
    placement: Literal["node", "worker"] = "node"
    """On a job of its own, or started by the worker jobs, once per host; of a role on workers
    `roles` gives one spec with index 0."""
    after: tuple[str, ...] = ()
    """Roles whose servers must answer before this node can be launched (its peers)."""
    meets: tuple[str, ...] = ()
    """Roles (possibly its own) whose addresses and ports must be known before this node can be
    launched; their servers need not answer yet. For nodes that start at the same time."""
    ports: tuple[str, ...] = ()
    """Names of the further ports that its server listens on (gossip, JMX, HTTP)."""
    outlives: tuple[str, ...] = ()
    """Roles, of nodes on jobs of their own, that end before this node when a session is closed;
    it waits for them for a minute at most."""

    @property
    def name(self) -> str:
        """Unique in the session, part of file names and of results: ``data0``, ``config2``."""
        return f"{self.role}{self.index}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets of one session; never printed."""

    user: str
    password: str = field(repr=False)
    key: str = field(repr=False)
    """A longer secret that servers share among themselves (MongoDB's key file)."""

    @classmethod
    def make(cls) -> Credentials:
        """New random secrets: 160 bits for users, letters and digits only; 512 bits for servers."""
        return cls("storewise", secrets.token_hex(20), secrets.token_hex(64))

    @classmethod
    def read(cls, path: Path) -> Credentials:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, cluster: Cluster) -> Credentials:
        """The credentials of a cluster's clients; EngineError if it has none."""
        if cluster.credentials is None:
            raise EngineError(f"{cluster.engine}: the cluster names no file with credentials")
        return cls.read(cluster.credentials)

    def write(self, path: Path) -> None:
        """Write them into a new file that only this user can read."""
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Installation:
    """An engine's programs as found on a host."""

    programs: Mapping[str, Path]
    """Paths by the names that the engine uses for them."""
    version: str
    """The version that the server prints: ``MariaDB 10.11.6``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the programs need (from an environment module)."""


@dataclass(frozen=True, slots=True)
class Node:
    """The input of `launch`: the node to be started."""

    spec: NodeSpec
    topology: Topology
    settings: Mapping[str, Any]
    consistency: str
    session: str
    """Name of the session, letters, digits and dashes, for servers that want a cluster name."""
    directory: Path
    """The node's own empty directory, 0700, on node-local scratch or the session's file system."""
    address: str
    """The only address on which the server listens, and to which other hosts connect."""
    port: int
    installation: Installation
    credentials: Credentials
    peers: tuple[Endpoint, ...] = ()
    """Endpoints of the roles in ``spec.after`` and ``spec.meets``, by role and index; this node's
    own is among them where it meets its own role."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Its further ports by the names in ``spec.ports``; like `port`, chosen free for it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Command line and files of a server, and the way to end it. It runs in the foreground and
    prints to stdout or stderr."""

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Text by path relative to the node's directory; written 0600, directories 0700. Secrets go
    here, never into a command or the environment."""
    directories: tuple[str, ...] = ()
    """To be made first, relative to the node's directory."""
    steps: tuple[tuple[str, ...], ...] = ()
    """Commands to run to their end first, such as initdb; their output goes to the server log."""
    environment: Mapping[str, str] = field(default_factory=dict)
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Commands that remove what the server keeps outside its directory (a place in HDFS). They run
    in the same environment when the server has ended and its data are not kept, after the nodes
    that it outlives; several nodes may run them."""
    remove_when_ready: tuple[str, ...] = ()
    """Files to remove as soon as the server answers (those whose secrets it has read)."""
    stop_signal: signal.Signals = signal.SIGTERM
    """Asks the server to end in order."""
    stop_seconds: float = 30.0
    """Time it has for that; then it is killed."""
    refuses_root: bool = False
    """The server must not be started as root: root runs it in a user namespace as nobody."""


#: Runs a program of the engine on the node's host, in the node's directory and with its server's
#: environment, for so many seconds at most. Returns what it prints (stdout and stderr); EngineError
#: with that text where it ends with another status than 0 or takes longer.
Run = Callable[[Sequence[str], float], str]


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The cluster, as `ServerEngine.join` and `bootstrap` see it."""

    topology: Topology
    settings: Mapping[str, Any]
    consistency: str
    credentials: Credentials
    endpoints: Callable[[str], tuple[Endpoint, ...]]
    """Waits until the servers of a role all answer, and for the bootstrap have joined; returns them
    by index."""
    raise_if_aborted: Callable[[], None]
    """Raises when the trial is to end, and for a join when the server has ended; call it in every
    loop that waits."""


class ServerEngine(Engine):
    """An engine whose store is one or more servers."""

    Settings: ClassVar[type[EngineSettings]] = ServerSettings
    ready_seconds: ClassVar[float] = 60.0
    """From the start of a server's process to its first answer, at most."""
    own_loopback: ClassVar[bool] = False
    """On loopback node k listens on 127.0.0.(k + 1), for servers that tell nodes by address."""
    guard: ClassVar[str] = "nothing"
    """Authentication of a node's client port, in a few words for the report ("password")."""

    @abstractmethod
    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        """The nodes of a cluster; EngineError for a shape that the engine cannot have. Pure: asked
        when the study is read, on a host that may not have the engine."""

    @abstractmethod
    def find(self, settings: Mapping[str, Any]) -> Installation:
        """The programs on this host; EngineError with the places searched and what to install."""

    @abstractmethod
    def launch(self, node: Node) -> Launch:
        """The commands that start this node. Has no side effects."""

    def not_started_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        """The reason why the server has not started yet; None if it has. Its node polls this before
        `join`. Engines override it if the account of the session is only made in `bootstrap`."""
        return self.not_ready_reason(endpoint, credentials)

    @abstractmethod
    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        """Why the server at `endpoint` cannot answer a query yet, as the driver's message; None if
        it can. The query is sent as the session's user; before the bootstrap it may be a simpler
        request. EngineError if waiting will not help (the password is refused)."""

    def join(self, node: Node, context: ClusterContext, run: Run) -> None:
        """Steps that must run on the node's own host once its server answers, such as joining the
        cluster; run in the jobs of all nodes at the same time."""

    def wait_recovered(self, node: Node, raise_if_aborted: Callable[[], None]) -> None:
        """Wait until a node that was restarted on its data serves as before; its server is ready
        already. This ends the recovery time. Other nodes may be down."""

    def bootstrap(self, context: ClusterContext) -> None:
        """Form the cluster: replica sets, users, shards, placement of data.

        A client's `create` makes tables and collections later. The default only waits until this
        host can reach every node; EngineError if one is not ready within `ready_seconds`.
        """
        specs = self.roles(context.topology, context.settings)
        for role in dict.fromkeys(s.role for s in specs if s.placement == "node"):
            for endpoint in context.endpoints(role):
                until = time.monotonic() + self.ready_seconds
                while (words := self.not_ready_reason(endpoint, context.credentials)) is not None:
                    context.raise_if_aborted()
                    if time.monotonic() > until:
                        raise EngineError(
                            f"{endpoint.name} on host {endpoint.host} answers on its own host, but "
                            f"not to this host within {self.ready_seconds:g} s: {words}"
                        )

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        """Port name -> its authentication, for a node's further ports."""
        return dict.fromkeys(endpoint.ports, self.guard)

    def open_ports(self, spec: NodeSpec, topology: Topology) -> Mapping[str, str]:
        """Ports of a node without authentication -> what a stranger can do there ("read and
        write"). A study must allow them, except on loopback."""
        return {} if self.flags.authentication else {"client port": "read and write"}
