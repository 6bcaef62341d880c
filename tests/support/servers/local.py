"""A whole cluster on this host from one process, for tests and benchmarks.

The workflow starts each node as a job of its own (`node`); here threads do it. What starts, waits
for and forms the servers is the same.
"""

import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.server import (
    ClusterContext,
    Credentials,
    Node,
    ServerEngine,
    Topology,
)
from storewise.engines.registry import engine as engine_named
from storewise.errors import Aborted, EngineError
from storewise.session.jobs.node import OUTLIVE_SECONDS
from storewise.session.server.address import LOOPBACK, address_of
from storewise.session.server.guard import POLL
from storewise.session.server.server import Server, start_server

SECRETS = "credentials.json"


@dataclass
class LocalCluster:
    """The running nodes by name, and what clients connect with."""

    cluster: Cluster
    servers: dict[str, Server] = field(default_factory=dict)


@contextmanager
def running(name, directory, topology=None, settings=None, consistency="", schema=None):
    """Start, form and end a cluster on loopback below `directory`; yields its nodes too.

    Raises what the engine raises, with nothing left running. Roles that have their place on
    worker hosts are started as well.
    """
    engine = engine_named(name)
    if not isinstance(engine, ServerEngine):
        raise EngineError(f"{engine.title} has no servers")
    nodes = _Nodes(engine, directory, topology or Topology(), settings or {}, consistency)
    with ExitStack() as stack:
        stack.callback(nodes.stop)
        cluster = nodes.start(schema or Schema())
        yield LocalCluster(cluster, nodes.servers)


@contextmanager
def local_cluster(name, directory, topology=None, settings=None, consistency="", schema=None):
    """`running`, for those who only want to connect."""
    with running(name, directory, topology, settings, consistency, schema) as result:
        yield result.cluster


class _Nodes:
    def __init__(self, engine, directory, topology, settings, consistency):
        self.engine, self.directory = engine, directory
        self.specs = engine.roles(topology, settings)
        self.servers = {}
        self._addresses = {}
        self._answering = {}
        self._gone = set()
        self._ended = threading.Event()
        self._error = None
        self._threads = []
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.secrets = directory / SECRETS
        if not self.secrets.exists():
            Credentials.make().write(self.secrets)
        self.shared = {
            "topology": topology,
            "settings": settings,
            "consistency": consistency or next(iter(engine.consistencies)),
            "session": "local",
            "credentials": Credentials.read(self.secrets),
        }
        self.installation = engine.find(settings)

    def start(self, schema):
        for spec in self.specs:
            thread = threading.Thread(target=self._node, args=(spec,), name=spec.name)
            self._threads.append(thread)
            thread.start()
        self.engine.bootstrap(
            ClusterContext(
                **{name: value for name, value in self.shared.items() if name != "session"},
                endpoints=self._endpoints,
                raise_if_aborted=self._check,
            )
        )
        endpoints = tuple(e for role in self._roles() for e in self._endpoints(role))
        cluster = Cluster(
            engine=self.engine.name,
            endpoints=endpoints,
            credentials=self.secrets,
            settings=self.shared["settings"],
            consistency=self.shared["consistency"],
        )
        with closing(self.engine.connect(cluster, "write")) as client:
            client.create(schema)
        return cluster

    def stop(self):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _roles(self):
        return list(dict.fromkeys(spec.role for spec in self.specs))

    def _check(self):
        if self._error is not None:
            raise self._error
        if self._ended.is_set():
            raise Aborted("the cluster is being ended")

    def _await(self, result):
        while not result():
            self._check()
            time.sleep(POLL)

    def _endpoints(self, role):
        specs = [spec for spec in self.specs if spec.role == role]
        self._await(lambda: all(spec.name in self.servers for spec in specs))
        return tuple(self.servers[spec.name].endpoint for spec in specs)

    def _known(self, roles, result):
        """The endpoints of all nodes of some roles, as soon as all are there."""
        names = [spec.name for role in roles for spec in self.specs if spec.role == role]
        self._await(lambda: all(name in result for name in names))
        return tuple(result[name] for name in names)

    def _node(self, spec):
        """A node's whole life. One thread for all of it: a server dies with the thread that
        started its guard."""
        server = None
        try:
            node = Node(
                **self.shared,
                spec=spec,
                directory=self.directory / spec.name,
                address=address_of(LOOPBACK, spec.index if self.engine.own_loopback else 0),
                port=0,
                installation=self.installation,
                peers=tuple(e for role in spec.after for e in self._endpoints(role)),
            )
            log = self.directory / f"{spec.name}.log"

            def meet(own):
                self._addresses[spec.name] = own
                return self._known(spec.meets, self._addresses)

            met = spec.meets or any(spec.role in other.meets for other in self.specs)
            server = start_server(self.engine, node, log, self._check, meet=meet if met else None)
            self._answering[spec.name] = server.endpoint

            def answering(role):
                return self._known((role,), self._answering)

            server.join(answering, self._check)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            if not isinstance(error, Aborted):
                self._error = self._error or error
            if server is not None:
                server.end()
            return
        self.servers[spec.name] = server
        self._ended.wait()
        self._outlive(spec)
        server.stop()
        self._gone.add(spec.name)
        server.remove()

    def _outlive(self, spec):
        """Wait for the end of the nodes that this one outlives, as far as they were started."""
        before = {s.name for s in self.specs if s.role in spec.outlives} & self.servers.keys()
        until = time.monotonic() + OUTLIVE_SECONDS
        while before - self._gone and time.monotonic() < until:
            time.sleep(POLL)
