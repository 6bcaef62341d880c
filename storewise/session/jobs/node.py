"""A node's job: one server of a session, from its start to its end, sampled every second."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from storewise.atomic import holds
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import (
    OUTLIVE_SECONDS,
    Credentials,
    Installation,
    Node,
    NodeSpec,
    ServerEngine,
)
from storewise.errors import EngineError, StorewiseError
from storewise.metrics.canary import run_canary
from storewise.metrics.host import host_name, tree_bytes
from storewise.metrics.sampler import Sampler, Watched, elect
from storewise.metrics.schema import Sample
from storewise.processes import undisturbed
from storewise.session.coordination.cluster import (
    ADDRESSES,
    ANSWERING,
    CLUSTER,
    CREDENTIALS,
    ENDPOINTS,
    GONE,
    NODES,
    STOP,
    GoneNode,
    ReadyNode,
    StartedNode,
    clock_offset,
    endpoints_of,
    gone_nodes,
    node_jobs,
    publish,
    ready_nodes,
    server_engine,
    started_nodes,
)
from storewise.session.coordination.liveness import Session, members, remove_tree
from storewise.session.coordination.progress import Publisher, Told
from storewise.session.faults.executor import LOOK_EVERY as ORDERS_EVERY
from storewise.session.faults.executor import FaultExecutor
from storewise.session.jobs.node_job import NodeJob, guarded, make_directory, node_directory
from storewise.session.jobs.node_results import PHASE, write_node_part
from storewise.session.server.address import address_of
from storewise.session.server.server import Server, start_server

#: How often a node looks for the end of its session, in s.
LOOK_EVERY = 0.5
#: A node keeps this share of its wall time, at most so many seconds, for an orderly end.
_RESERVE_SHARE, _RESERVE_SECONDS = 0.25, 90.0
_CLOCK_WARNING = 0.1
#: For nodes of an aborted trial, s; one whose job was killed never says that it has gone.
_GONE_SECONDS = 15.0
_SAY_EVERY = 60.0


def run_node(
    job: NodeJob,
    session: Session,
    check: Callable[[], None],
    log: logging.Logger,
    tell: Callable[[BaseException], None],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a node until its session is closed, then write its samples.

    `tell` aborts the trial with an error before the server is ended because of it: else clients
    that lose their connection would be the first to complain. Raises EngineError with the end of
    the server's log where the server fails, Aborted when the trial ends, StorewiseError at the end
    of the job's wall time. The server has ended and its directory is removed in any case. `clock`
    (s) is what its wall time and its patience with other nodes go by.
    """
    _Node(job, session, check, log, tell, clock).run()


def reserve_of(seconds: float) -> float:
    """The part of a wall time, in s, that a node keeps for an orderly end."""
    return min(_RESERVE_SECONDS, _RESERVE_SHARE * seconds)


class _Node:
    def __init__(
        self,
        job: NodeJob,
        session: Session,
        check: Callable[[], None],
        log: logging.Logger,
        tell: Callable[[BaseException], None],
        clock: Callable[[], float],
    ) -> None:
        self.clock = clock
        self.job, self.session, self._check, self.log = job, session, check, log
        self.tell = tell
        self.trial = job.trial
        self.engine: ServerEngine = server_engine(job.trial)
        self.spec: NodeSpec = next(s for s in node_jobs(job.trial) if s.name == job.node)
        self.started_at = time.time()
        self.started = clock()
        self.offset = clock_offset(job.live, job.node)
        self.seconds = self._seconds()
        self.first_start = 0.0
        self.samples: list[Sample] = []
        self.warnings: list[str] = []

    def _seconds(self) -> float | None:
        """For how long it may serve, in s."""
        if not self.job.runtime_minutes:
            return None
        seconds = self.job.runtime_minutes * 60
        return seconds - reserve_of(seconds)

    def check(self) -> None:
        self._check()
        if self.seconds is not None and self.clock() - self.started > self.seconds:
            raise StorewiseError(
                f"{self.job.node} stopped in order before its wall time of "
                f"{self.job.runtime_minutes:g} minutes ended{self._waited_for()}; give rule `node` "
                "more `runtime` (set-resources in the profile; on the command line "
                "--set-resources replaces all that the profile sets)"
            )

    def _waited_for(self) -> str:
        """Jobs that have never started: what forms the cluster, else workers of the phase."""
        live, jobs = self.job.live, members(self.job.live)
        if not (live / CLUSTER).exists() and not (live / "barriers").is_dir():
            started = started_nodes(live)
            queued = [spec.name for spec in node_jobs(self.trial) if spec.name not in started]
            queued += ["form"] if "form" not in jobs else []
            if queued:
                return f", and {', '.join(queued)} had not started yet (still queued?)"
        for phase in self.trial.phases:
            barrier = live / "barriers" / f"{phase.name}-0"
            arrived = {path.name for path in barrier.iterdir()} if barrier.is_dir() else set()
            every = {str(worker) for worker in range(self.trial.workers)}
            missing = sorted(k for k in every - arrived if f"{phase.name}.{k}" not in jobs)
            if missing:
                names = ", ".join(f"{phase.name}.{k}" for k in missing)
                return f", and {names} had not started yet (still queued?)"
        return ""

    def run(self) -> None:
        job = self.job
        address = address_of(job.interface, self.spec.index if self.engine.own_loopback else 0)
        self.warnings += guarded(self.engine, self.spec, self.trial, address)
        installation = self.engine.find(self.trial.settings)
        directory = node_directory(job, self.session)
        publish(
            job.live,
            NODES,
            job.node,
            StartedNode(
                job.node,
                host_name(),
                str(directory),
                self.started_at,
                self.started_at + self.seconds if self.seconds is not None else None,
                self.trial.keep_data,
            ),
        )
        self.log.info("%s, %s, directory %s", self.engine.title, installation.version, directory)
        peers = self._peers()
        self.warnings += make_directory(directory, job.node)
        try:
            server = self._started(directory, address, installation, peers)
        except BaseException:
            with undisturbed():
                remove_tree(directory)
            raise
        self._serve(server, installation)

    def _started(
        self,
        directory: Path,
        address: str,
        installation: Installation,
        peers: tuple[Endpoint, ...],
    ) -> Server:
        job = self.job
        if elect(job.live, "node-canary"):
            self.samples += run_canary(directory, phase=PHASE)
        # What is in it is of this session: log tails must not show an earlier one's end.
        job.server_log.unlink(missing_ok=True)
        node = Node(
            spec=self.spec,
            topology=self.trial.topology,
            settings=self.trial.settings,
            consistency=self.trial.consistency,
            session=re.sub(r"[^A-Za-z0-9-]", "-", self.session.trial),
            directory=directory,
            address=address,
            port=0,
            installation=installation,
            credentials=Credentials.read(job.live / CREDENTIALS),
            peers=peers,
        )
        met = any(self.spec.role in spec.meets for spec in node_jobs(self.trial))
        return start_server(
            self.engine,
            node,
            job.server_log,
            self.check,
            ports=job.ports,
            live=job.live,
            meet=self._meet if met or self.spec.meets else None,
        )

    def _peers(self) -> tuple[Endpoint, ...]:
        return self._endpoints(
            self.spec.after,
            lambda: {name: node.endpoint for name, node in ready_nodes(self.job.live).items()},
        )

    def _meet(self, own: Endpoint) -> tuple[Endpoint, ...]:
        """Say where the server will listen, and learn it of those that it meets."""
        publish(self.job.live, ADDRESSES, self.job.node, own)
        return self._endpoints(self.spec.meets, lambda: endpoints_of(self.job.live, ADDRESSES))

    def _endpoints(
        self, roles: Sequence[str], known: Callable[[], Mapping[str, Endpoint]]
    ) -> tuple[Endpoint, ...]:
        """The endpoints of all nodes of some roles, as soon as all are known."""
        wanted = [s.name for role in roles for s in node_jobs(self.trial) if s.role == role]
        said = 0.0
        while missing := [name for name in wanted if name not in (found := known())]:
            if time.monotonic() - said > _SAY_EVERY:
                said = time.monotonic()
                self.log.info("waiting for %s", ", ".join(missing))
            self._pause()
        return tuple(found[name] for name in wanted) if wanted else ()

    def _settle(self, server: Server) -> None:
        live = self.job.live
        publish(live, ANSWERING, self.job.node, server.endpoint)
        try:
            server.settle(
                lambda role: self._endpoints((role,), lambda: endpoints_of(live, ANSWERING)),
                self.check,
                self.log,
            )
        except BaseException:
            server.end()
            raise

    def _pause(self) -> None:
        self.check()
        time.sleep(LOOK_EVERY)

    def _serve(self, server: Server, installation: Installation) -> None:
        job = self.job
        ready_at = time.time()
        self.first_start = server.started_at
        self._settle(server)
        sampler: Sampler | None = None
        executor: FaultExecutor | None = None
        closed = False
        try:
            taking = Sampler(
                Watched(
                    clients={},
                    store_roots=(server.pid,),
                    store=(server.node.directory,),
                    disk_path=server.node.directory,
                    host=elect(job.live, "node-sampler"),
                ),
                phase=PHASE,
                worker=0,
                step=0,
            )
            sampling_from = time.time()
            taking.start(time.perf_counter_ns())
            sampler = taking
            record = ReadyNode(
                job.node,
                server.endpoint,
                installation.version,
                self.engine.guards(server.endpoint),
                server.pid,
                ready_at,
            )
            publish(job.live, ENDPOINTS, job.node, record)
            self.log.info(
                "answers at %s:%d after %.1f s (server process %d)",
                server.node.address,
                server.node.port,
                ready_at - server.started_at,
                server.pid,
            )
            executor = self._fault_executor(server, record, taking)
            self._until_stopped(server, executor, taking)
            closed = True
        except BaseException as error:
            self.log.info("ending the server: %s", error)
            self.tell(error)
            raise
        finally:
            if executor is not None:
                self._end_slowing(executor)
            try:
                taken = sampler.stop() if sampler is not None else []
                self.samples += [s._replace(worker=None, node=job.node) for s in taken]
            finally:
                with undisturbed():
                    gone = self._end(server, keep=self.trial.keep_data and closed)
        self._write(server, installation, sampling_from, ready_at, gone)

    def _fault_executor(self, server: Server, record: ReadyNode, sampler: Sampler) -> FaultExecutor:
        def renewed() -> None:
            sampler.follow((server.pid,))
            publish(self.job.live, ENDPOINTS, self.job.node, replace(record, server_pid=server.pid))

        return FaultExecutor(
            server,
            node_jobs(self.trial),
            self.job.live,
            check=self.check,
            log=self.log,
            offset=self.offset,
            renewed=renewed,
        )

    def _end_slowing(self, executor: FaultExecutor) -> None:
        if left := executor.end():
            self.log.warning("%s: slowing could not be undone: %s", self.job.node, left)
            self.warnings.append(f"{self.job.node}: slowing could not be undone: {left}")

    def _until_stopped(self, server: Server, executor: FaultExecutor, sampler: Sampler) -> None:
        said = time.monotonic()
        publisher = Publisher(self.job.live, self.job.node, self.log)
        while not holds(self.job.live, STOP):
            self.check()
            if (text := executor.failure(ORDERS_EVERY)) is not None:
                raise EngineError(text)
            executor.look()
            if publisher.due():
                told = Told(self.job.node, host_name(), "serves", time.time())
                publisher.put(replace(told, figures=sampler.latest()))
            if time.monotonic() - said > _SAY_EVERY:
                said = time.monotonic()
                self.log.info("%d bytes of data", tree_bytes((server.node.directory,)))
        publisher.remove()
        self.log.info("the session is closed")
        self._outlive(server)

    def _outlive(self, server: Server) -> None:
        """Let those end first that need this server for an orderly end."""
        before = [s.name for s in node_jobs(self.trial) if s.role in self.spec.outlives]
        until = self.clock() + OUTLIVE_SECONDS
        while missing := [name for name in before if name not in gone_nodes(self.job.live)]:
            self.check()
            if (text := server.failure(LOOK_EVERY)) is not None:
                raise EngineError(text)
            if self.clock() > until:
                names = ", ".join(missing)
                self.log.warning("%s not gone after %.0f s: ending", names, OUTLIVE_SECONDS)
                return

    def _await_gone(self, server: Server) -> None:
        """Let nodes that write to the same place end first, also where the trial was aborted."""
        before = {s.name for s in node_jobs(self.trial) if s.role in self.spec.outlives}
        until = time.monotonic() + _GONE_SECONDS
        while self.job.live.is_dir() and before - gone_nodes(self.job.live).keys():
            if time.monotonic() > until:
                return
            time.sleep(LOOK_EVERY)

    def _end(self, server: Server, *, keep: bool) -> GoneNode:
        directory = server.node.directory
        size = tree_bytes((directory,))
        start = time.monotonic()
        server.stop()
        seconds = time.monotonic() - start
        kept = ""
        if keep:
            kept = str(directory)
            self.log.info("kept: %s", directory)
        else:
            if server.launch.cleanup:
                self._await_gone(server)
            if left := server.remove():
                self.log.warning("not removed: %s", left)
                self.warnings.append(f"{self.job.node} left data behind: {left}")
        self.log.info("the server has ended after %.1f s; its data had %d bytes", seconds, size)
        gone = GoneNode(self.job.node, host_name(), seconds, size, kept)
        if self.job.live.is_dir():
            publish(self.job.live, GONE, self.job.node, gone)
        return gone

    def _write(
        self,
        server: Server,
        installation: Installation,
        sampling_from: float,
        ready_at: float,
        gone: GoneNode,
    ) -> None:
        offsets = (self.offset, clock_offset(self.job.live, self.job.node))
        worst = max(offsets, key=abs)
        if abs(worst) > _CLOCK_WARNING:
            self.warnings.append(
                f"the clock of host {host_name()} is {worst:+.2f} s off the session's: seconds of "
                "this node and of the clients do not match"
            )
        times = {
            "started_at": sampling_from,
            "queue_time": self.started_at - self.session.opened,
            "ready_time": ready_at - self.first_start,
            "stop_time": gone.stop_seconds,
            "clock_offset": worst,
        }
        write_node_part(
            self.job,
            self.session,
            self.engine,
            server,
            installation,
            gone,
            times=times,
            samples=self.samples,
            warnings=self.warnings,
        )
