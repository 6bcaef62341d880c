"""A node's job: one server of a session, from its start to its end, sampled every second."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from storewise.atomic import listed
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Installation, NodeSpec, ServerEngine
from storewise.errors import ConfigError, EngineError, StorewiseError
from storewise.metrics.canary import run_canary
from storewise.metrics.host import host_name, tree_bytes
from storewise.metrics.inodes import count_inodes
from storewise.metrics.sampler import Sampler, Watched, elect
from storewise.metrics.schema import Sample
from storewise.processes import undisturbed
from storewise.session.coordination.barrier import BARRIERS, Barrier
from storewise.session.coordination.cluster import (
    ADDRESSES,
    ANSWERING,
    CLUSTER,
    ENDPOINTS,
    GONE,
    LOADED,
    NODES,
    STOP,
    GoneNode,
    ReadyNode,
    StartedNode,
    await_records,
    clock_offset,
    endpoints_of,
    gone_nodes,
    publish,
    ready_nodes,
    server_engine,
    started_nodes,
)
from storewise.session.coordination.liveness import members, remove_tree
from storewise.session.coordination.progress import JobProgress, ProgressFile
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.coordination.trial_part import write_trial_part
from storewise.session.faults.executor import FaultExecutor
from storewise.session.faults.orders import ORDERS
from storewise.session.jobs.node_directory import directory_of, make_directory
from storewise.session.jobs.sidecar import node_of
from storewise.session.server.address import address_of, is_loopback
from storewise.session.server.server import Server, start_server
from storewise.study.trial import Trial, node_jobs
from storewise.waiting import wait_for

#: Phase of a node's samples: a session spans all phases of its trial.
PHASE = "session"
#: How often a node looks for the end of its session, in s.
LOOK_EVERY = 0.5
#: A node keeps this share of its wall time, at most so many seconds, for an orderly end.
_RESERVE_SHARE, _RESERVE_SECONDS = 0.25, 90.0
_CLOCK_WARNING = 0.1
#: For nodes of an aborted trial, s; one whose job was killed never says that it has gone.
_GONE_SECONDS = 15.0
#: A node that outlives others waits so long for their end, s.
OUTLIVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class NodeJob:
    """Parameters of the job of one node."""

    trial: Trial
    node: str
    result: Path
    server_log: Path
    kept: Path
    """Path of the data directory if the study keeps it (and no scratch is named)."""
    scratch: str = ""
    """Node-local directory, variables such as $TMPDIR allowed; empty: below the session's."""
    interface: str = "lo"
    ports: str = ""
    runtime_minutes: float | None = None
    """Wall time of the job, as it was asked of the scheduler."""


def run_node(node: NodeJob, job: TrialJob, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Run a node until its session is closed, then write its samples.

    The trial is aborted with an error before the server is ended because of it: else clients that
    lose their connection would be the first to complain. Raises EngineError with the end of
    the server's log where the server fails, Aborted when the trial ends, StorewiseError at the end
    of the job's wall time. The server has ended and its directory is removed in any case. `clock`
    (s) is what its wall time and its patience with other nodes go by.
    """
    _Node(node, job, clock).run()


def reserve_of(seconds: float) -> float:
    """The part of a wall time, in s, that a node keeps for an orderly end."""
    return min(_RESERVE_SECONDS, _RESERVE_SHARE * seconds)


class _Node:
    def __init__(self, job: NodeJob, frame: TrialJob, clock: Callable[[], float]) -> None:
        self.job, self.frame, self.clock = job, frame, clock
        self.trial, self.live, self.log = job.trial, frame.live, frame.log
        self.engine = server_engine(job.trial)
        self.specs = node_jobs(job.trial)
        self.spec = next(spec for spec in self.specs if spec.name == job.node)
        self.started_at = time.time()
        self.started = clock()
        self.offset = clock_offset(frame.live, job.node)
        self.seconds: float | None = None
        """Seconds for which it may serve; None: no limit."""
        if job.runtime_minutes:
            self.seconds = job.runtime_minutes * 60 - reserve_of(job.runtime_minutes * 60)
        self.samples: list[Sample] = []
        self.warnings: list[str] = []
        self.directories: Sequence[Path] | None = None
        """Until the load has ended."""

    def check(self) -> None:
        self.frame.check()
        if self.seconds is not None and self.clock() - self.started > self.seconds:
            raise StorewiseError(
                f"{self.job.node} stopped in order before its wall time of "
                f"{self.job.runtime_minutes:g} minutes ended{self._never_started()}; give rule "
                "`node` more `runtime` (set-resources in the profile; on the command line "
                "--set-resources replaces all that the profile sets)"
            )

    def _never_started(self) -> str:
        """Jobs that have never started: that which forms the cluster, else workers."""
        jobs, live, trial = members(self.live), self.live, self.trial
        if not (live / CLUSTER).exists() and not (live / BARRIERS).is_dir():
            names = [*(spec.name for spec in self.specs), "form"]
            missing = [n for n in names if n not in {*started_nodes(live), *jobs}]
        else:
            workers, missing = [str(worker) for worker in range(trial.workers)], []
            for phase in trial.phases:
                absent = Barrier(live, workers, f"{phase.name}-0").missing()
                missing = [n for n in (f"{phase.name}.{w}" for w in absent) if n not in jobs]
                if missing:
                    break
        return f", and {', '.join(missing)} had not started yet (still queued?)" if missing else ""

    def run(self) -> None:
        job, live = self.job, self.live
        address = address_of(job.interface, self.spec.index if self.engine.own_loopback else 0)
        self.warnings += _port_warnings(self.engine, self.spec, self.trial, address)
        installation = self.engine.find(self.trial.settings)
        kept = job.kept if self.trial.keep_data else None
        directory = directory_of(job.node, job.scratch, kept, live, self.frame.session)
        started = StartedNode(job.node, host_name(), str(directory), self.trial.keep_data)
        publish(live, NODES, job.node, started)
        self.log.info("%s, directory %s", installation.version, directory)
        peers = self._endpoints(
            self.spec.after, lambda: {name: n.endpoint for name, n in ready_nodes(live).items()}
        )
        self.warnings += make_directory(directory, job.node, self.frame.session.run)
        try:
            if elect(live, "node-canary"):
                self.samples += run_canary(directory, phase=PHASE)
            server = self._start(directory, address, installation, peers)
        except BaseException:
            with undisturbed():
                remove_tree(directory)
            raise
        self._serve(server)

    def _start(
        self, directory: Path, address: str, installation: Installation, peers: tuple[Endpoint, ...]
    ) -> Server:
        job = self.job
        # What is in it is of this session: log tails must not show an earlier one's end.
        job.server_log.unlink(missing_ok=True)
        session = re.sub(r"[^A-Za-z0-9-]", "-", self.frame.session.trial)
        node = node_of(
            self.trial, self.spec, self.live, session, directory, address, installation, peers
        )

        def meet(here: Endpoint) -> tuple[Endpoint, ...]:
            """Publish the server's address, and await those of the servers that it meets."""
            publish(self.live, ADDRESSES, job.node, here)
            return self._endpoints(self.spec.meets, lambda: endpoints_of(self.live, ADDRESSES))

        met = any(self.spec.role in spec.meets for spec in self.specs)
        return start_server(
            self.engine,
            node,
            job.server_log,
            self.check,
            ports=job.ports,
            live=self.live,
            meet=meet if met or self.spec.meets else None,
        )

    def _endpoints(
        self, roles: Sequence[str], known: Callable[[], Mapping[str, Endpoint]]
    ) -> tuple[Endpoint, ...]:
        """The endpoints of all nodes of some roles, as soon as all are known."""
        wanted = [s.name for role in roles for s in self.specs if s.role == role]
        return tuple(await_records(wanted, known, self.check, self.log).values())

    def _join(self, server: Server) -> None:
        publish(self.live, ANSWERING, self.job.node, server.endpoint)
        try:
            server.join(
                lambda r: self._endpoints((r,), lambda: endpoints_of(self.live, ANSWERING)),
                self.check,
            )
        except BaseException:
            server.end()
            raise

    def _serve(self, server: Server) -> None:
        """Sample and look after a server that answers until the session is closed, then end it."""
        job, node, ready_at = self.job, server.node, time.time()
        times = {"ready_time": ready_at - server.started_at}
        self._join(server)
        closed = False
        with ExitStack() as stack:
            # Whatever happens from here on, the server ends after what uses it.
            gone: list[GoneNode] = []
            stack.callback(lambda: gone.append(self._end(server, keep=closed)))
            try:
                sampler = self._sample(server, stack)
                times["started_at"] = time.time()
                record = ReadyNode(
                    *(job.node, server.endpoint, node.installation.version),
                    *(self.engine.guard, server.pid, ready_at),
                )
                publish(self.live, ENDPOINTS, job.node, record)
                self.log.info(
                    *("answers at %s:%d after %.1f s", node.address, node.port),
                    times["ready_time"],
                )

                def restarted() -> None:
                    sampler.follow((server.pid,))
                    publish(self.live, ENDPOINTS, job.node, replace(record, server_pid=server.pid))

                faults = FaultExecutor(
                    server,
                    self.specs,
                    self.live,
                    check=self.check,
                    log=self.log,
                    offset=self.offset,
                    restarted=restarted,
                )
                stack.callback(self._end_faults, faults)
                self._until_stopped(server, faults, sampler)
                closed = True
            except BaseException as error:
                self.log.info("ending the server: %s", error)
                self.frame.tell(error)
                raise
        self._write(server, gone[0], times)

    def _sample(self, server: Server, stack: ExitStack) -> Sampler:
        """Start to sample the server's processes, until `stack` ends."""
        directory = server.node.directory
        watched = Watched(
            clients={},
            store_roots=(server.pid,),
            store=(directory,),
            disk_path=directory,
            host=elect(self.live, "node-sampler"),
        )
        sampler = Sampler(watched, phase=PHASE, worker=0, step=0)
        sampler.start(time.perf_counter_ns())

        def stop() -> None:
            taken = sampler.stop()
            self.samples += [s._replace(worker=None, node=self.job.node) for s in taken]

        stack.callback(stop)
        self.directories = self.engine.directories(self.trial.settings, directory)
        return sampler

    def _end_faults(self, faults: FaultExecutor) -> None:
        if left := faults.end():
            self._warn(f"{self.job.node}: slowing could not be undone: {left}")

    def _warn(self, text: str) -> None:
        self.log.warning("%s", text)
        self.warnings.append(text)

    def _until_stopped(self, server: Server, faults: FaultExecutor, sampler: Sampler) -> None:
        file = ProgressFile(self.live, self.job.node, self.log)
        stopped = False
        while not stopped:
            files = listed(self.live)
            stopped = STOP in files
            if LOADED in files:
                self._count_files()
            self.check()
            if ORDERS in files:
                faults.do_orders()
            if file.due():
                progress = JobProgress(self.job.node, host_name(), "serves", time.time())
                file.put(replace(progress, figures=sampler.latest()))
            if (text := faults.failure(0.0 if stopped else LOOK_EVERY)) is not None:
                raise EngineError(text)
        file.remove()
        self.log.info("the session is closed")

        def check() -> None:
            self.check()
            server.raise_if_ended()

        # Those end first that need this server for an orderly end.
        ended = partial(wait_for, lambda: not self._outlived(), clock=self.clock)
        if not ended(OUTLIVE_SECONDS, check, poll=LOOK_EVERY):
            names = ", ".join(self._outlived())
            self.log.warning("%s not gone after %.0f s: ending", names, OUTLIVE_SECONDS)

    def _count_files(self) -> None:
        """Files and directories when the load has ended, once."""
        directories, self.directories = self.directories, None
        if directories is not None:
            taken = count_inodes(directories).samples(PHASE)
            self.samples += [s._replace(node=self.job.node) for s in taken]

    def _outlived(self) -> list[str]:
        """The nodes that are to end before this one and have not."""
        names = [spec.name for spec in self.specs if spec.role in self.spec.outlives]
        return [name for name in names if name not in gone_nodes(self.live)]

    @undisturbed()
    def _end(self, server: Server, *, keep: bool) -> GoneNode:
        """Stop the server and remove its directory, unless its session was closed and the study
        keeps it."""
        keep, directory = keep and self.trial.keep_data, server.node.directory
        size = tree_bytes((directory,))
        start = time.monotonic()
        server.stop()
        seconds = time.monotonic() - start
        if keep:
            self.log.info("kept: %s", directory)
        else:
            if server.launch.cleanup:
                # Nodes that write to the same place end first, also where the trial was aborted.

                def others_ended() -> bool:
                    return not self.live.is_dir() or not self._outlived()

                wait_for(others_ended, _GONE_SECONDS, poll=LOOK_EVERY)
            if left := server.remove():
                self._warn(f"{self.job.node} left data behind: {left}")
        self.log.info("the server has ended after %.1f s; its data had %d bytes", seconds, size)
        kept = str(directory) if keep else ""
        record = GoneNode(self.job.node, host_name(), seconds, size, kept)
        if self.live.is_dir():
            publish(self.live, GONE, self.job.node, record)
        return record

    def _write(self, server: Server, gone: GoneNode, times: Mapping[str, float]) -> None:
        """Write the result part; `times` are in s."""
        job, session, engine, spec = self.job, self.frame.session, self.engine, self.spec
        clock = max(self.offset, clock_offset(self.live, job.node), key=abs)
        if abs(clock) > _CLOCK_WARNING:
            self.warnings.append(
                f"the clock of host {host_name()} is {clock:+.2f} s off the session's: seconds of "
                "this node and of the clients do not match"
            )
        times = {
            **times,
            "queue_time": self.started_at - session.opened,
            "stop_time": gone.stop_seconds,
            "clock_offset": clock,
        }
        self.samples += [Sample(PHASE, name, s, "s", node=job.node) for name, s in times.items()]
        self.samples.append(Sample(PHASE, "node_bytes", gone.bytes, "B", node=job.node))
        guards = engine.peer_guards(server.endpoint)
        write_trial_part(
            job.result,
            self.samples,
            self.trial,
            PHASE,
            node=job.node,
            role=spec.role,
            threads=spec.threads,
            memory_mb=spec.memory_mb,
            address=server.node.address,
            guard=engine.guard,
            ports={
                name: {"port": port, "guard": guards.get(name, "")}
                for name, port in server.endpoint.ports.items()
            },
            open_ports=dict(engine.open_ports(spec, self.trial.topology)),
            versions={"server": server.node.installation.version},
            programs={name: str(path) for name, path in server.node.installation.programs.items()},
            kept=gone.kept,
            warnings=self.warnings,
            run=session.run,
            opened=session.opened,
        )


def _port_warnings(engine: ServerEngine, spec: NodeSpec, trial: Trial, address: str) -> list[str]:
    """Warnings about a node's ports; ConfigError for ports off loopback without authentication
    that the study does not allow."""
    open_ports = engine.open_ports(spec, trial.topology)
    if not open_ports or is_loopback(address):
        return []
    names = "; ".join(f"{name}: who reaches it can {what}" for name, what in open_ports.items())
    if not trial.allow_open_ports:
        raise ConfigError(
            f"{engine.title} would listen on {address} with ports without authentication ({names});"
            " if your network allows it, say `allow_open_ports: true` in the study, or use one host"
            " and loopback"
        )
    return [f"{engine.title} listened on {address} with ports without authentication ({names})"]
