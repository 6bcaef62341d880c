"""Client processes and their threads: the side that works.

A worker job forks its client processes; each connects once, and in each step runs its client
threads. Parent and child talk over a pipe: for each step the child is told to `Prepare`, says
`Ready`, waits for `Go` and says `Done`; it may be told to `Disconnect` in between, and at last to
`End`. Or it says `Failure` once and ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from storewise.driver.arrivals import Paced, arrivals
from storewise.driver.embedded_stores import reading_cluster, writing_cluster
from storewise.driver.loops import closed_loop, open_loop
from storewise.driver.messages import (
    Disconnected,
    Done,
    End,
    Ended,
    Failure,
    Finish,
    Loaded,
    Prepare,
    Ready,
)
from storewise.driver.outage_marks import watched
from storewise.driver.progress import SharedCounters
from storewise.driver.worker_job import Step, WorkerJob, load_params, must_succeed, notes_of
from storewise.engines.contract.engine import Client, Cluster, Engine
from storewise.engines.registry import engine as engine_named
from storewise.errors import Aborted, EngineError, StorewiseError
from storewise.metrics.outages import Marks
from storewise.metrics.outages import merged as merge_marks
from storewise.metrics.recorder import NS, Recorded, Recorder
from storewise.session.coordination.ending import NO_MEMORY
from storewise.workloads.contract import (
    ClientContext,
    LoadedFile,
    Operation,
    PhaseParams,
    PhaseSpec,
    RefusedFile,
    Workload,
)
from storewise.workloads.registry import workload as workload_named


class _Reported:
    """Sends whatever ends the block to the parent, as a `Failure`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        text = f"{type(error).__name__}: {error}"
        lines = "".join(traceback.format_exception(error))
        ours = error if isinstance(error, StorewiseError) else None
        if ours is not None:
            try:
                pickle.loads(pickle.dumps(ours))
            except (pickle.PicklingError, TypeError, AttributeError):
                ours = StorewiseError(str(error))
        elif isinstance(error, MemoryError):
            ours = StorewiseError(NO_MEMORY)
        elif isinstance(error, OSError):
            ours = StorewiseError(text)
        try:
            self._connection.send(Failure(ours, text, lines))
        except OSError:
            os._exit(1)  # nobody is there to hear it
        return True


def _die_with_parent(life: int) -> None:
    """End this process when the other end of the pipe `life` closes, however that came."""

    def wait() -> None:
        os.read(life, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="life", daemon=True).start()


def client_process(
    job: WorkerJob,
    process: int,
    connection: Connection,
    life: tuple[int, int],
    shared: SharedCounters,
    tie: Callable[[], None],
) -> None:
    """The whole life of a client process; `tie` ties it to its parent's."""
    # The worker's handlers are not ours: it ends us itself when it is told to end.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie()
    os.close(life[1])
    _die_with_parent(life[0])
    with _Reported(connection):
        _Process(job, process, connection, shared).run()


class _Process:
    def __init__(
        self, job: WorkerJob, process: int, connection: Connection, shared: SharedCounters
    ) -> None:
        self.job, self.process = job, process
        self.connection, self.shared = connection, shared
        trial = job.trial
        self.engine: Engine = engine_named(trial.engine)
        self.workload: Workload = workload_named(trial.workload)
        self.spec: PhaseSpec = self.workload.phases[job.phase]
        self.load = load_params(trial, self.workload.phases[trial.load.name])
        self.before = notes_of(job.before)
        self.client: Client | None = None
        #: An embedded store has one writing process: a phase that changes data works on its own.
        self.own = self.engine.flags.embedded and self.spec.changes
        self.fatal = self.spec.loads and (
            self.engine.flags.embedded or must_succeed(self.engine, trial)
        )
        # An embedded store is one per process; of a server one process of the trial reports.
        self.reports = job.worker == 0 and process == 0
        if self.spec.loads and self.engine.flags.embedded:
            self.reports = True

    def _cluster(self) -> Cluster:
        job = self.job
        if not self.engine.flags.embedded:
            if job.cluster is None:
                raise StorewiseError(f"phase {job.phase!r} of a server has no cluster")
            return job.cluster
        if self.spec.loads:
            if job.store is None:
                raise StorewiseError(f"phase {job.phase!r} loads, but has no store directory")
            return writing_cluster(job.trial, job.store, job.worker, self.process, job.shards)
        if self.own:
            store = job.stores[job.worker]
            return writing_cluster(
                job.trial, store, job.worker, self.process, job.shards, job.written, self.before
            )
        return reading_cluster(job.trial, job.stores, job.shards, job.written, self.before)

    def run(self) -> None:
        try:
            self._obey()
        finally:
            # After an error only: a server sees that the process ends, a store in it leaves files.
            if self.client is not None and self.engine.flags.embedded:
                with suppress(EngineError):  # the error that ends the process says more
                    self.client.close()

    def _obey(self) -> None:
        while True:
            order = self.connection.recv()
            if isinstance(order, Prepare):
                client = self.client or self._connect()
                done = self._step(client, order.step)
                self.before += tuple(done.notes)
                self.connection.send(done)
                continue
            if self.client is not None:
                if self.own:
                    self.client.finish()
                self.client.close()
                self.client = None
            if isinstance(order, End):
                self.connection.send(Ended())
                return
            self.connection.send(Disconnected())

    def _connect(self) -> Client:
        writes = self.spec.loads or self.spec.changes
        self.client = self.engine.connect(self._cluster(), "write" if writes else "read")
        if writes and self.engine.flags.embedded:
            self.client.create(self.job.trial.store_schema())
        return self.client

    def _context(
        self,
        step: Step,
        thread: int,
        threads: int,
        loaded: list[LoadedFile],
        refused: list[RefusedFile],
        notes: list[dict[str, Any]],
    ) -> ClientContext:
        job, trial = self.job, self.job.trial
        first, _ = self._here(step)
        return ClientContext(
            engine=self.engine,
            schema=trial.store_schema(),
            params=step.params,
            shards=job.shards,
            worker=job.worker,
            workers=trial.workers,
            process=self.process,
            processes=trial.processes,
            thread=thread,
            threads=threads,
            seed=trial.seed,
            step=step.number,
            study_fields=trial.study_fields,
            phase=job.phase,
            written=job.written,
            loaded=loaded,
            quarantine=trial.on_bad_input == "quarantine",
            refused=refused,
            load=self.load,
            notes=notes,
            before=self.before,
            stores=trial.shards if self.engine.flags.embedded else 0,
            own=self.own,
            first=first,
            total=step.clients.all(trial.workers, trial.processes),
        )

    def _here(self, step: Step) -> tuple[int, int]:
        """The number of this process's first client in a step, and how many it has."""
        trial = self.job.trial
        return step.clients.here(self.job.worker, trial.workers, self.process, trial.processes)

    def _step(self, client: Client, step: Step) -> Done:
        loaded: list[LoadedFile] = []
        refused: list[RefusedFile] = []
        notes: list[dict[str, Any]] = []
        paced: list[Paced] = []
        marks: list[Marks] = []
        _, threads = self._here(step)
        gate = threading.Barrier(threads + 1)
        go = threading.Event()
        failed = threading.Event()
        zero = 0

        def run(thread: int) -> Recorded:
            try:
                mine = client.for_thread()
                context = self._context(step, thread, threads, loaded, refused, notes)
                operations = self.workload.operations(self.job.phase, mine, context)
                if step.params.crash is not None:
                    marks.append({})
                    operations = watched(operations, marks[-1])
                gate.wait()
                go.wait()
                recorder = Recorder(zero)
                found = self._loop(step, thread, context, operations, recorder, failed)
                if found is not None:
                    paced.append(found)
                if self.spec.loads or self.spec.changes:
                    self._flush(mine, step, recorder)
                # An open loop's client waits when its last operation has ended: no preparation.
                return recorder.result(perf_counter_ns() if found is None else None)
            except BaseException:
                failed.set()
                gate.abort()
                raise

        # A step may have fewer clients than there are processes: those without keep step.
        with ThreadPoolExecutor(max(1, threads), thread_name_prefix="client") as pool:
            futures = [pool.submit(run, thread) for thread in range(threads)]
            try:
                gate.wait()
            except threading.BrokenBarrierError:
                errors = [future.exception() for future in futures]
                raise next(
                    e for e in errors if e and not isinstance(e, threading.BrokenBarrierError)
                ) from None
            # A server that is killed in this step has counters of two lives, or cannot tell them.
            reports = self.reports and step.params.crash is None
            before = client.status() if reports else {}
            # What is alive now stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            self.connection.send(Ready())
            zero = self.connection.recv().zero
            go.set()
        recorded = Recorded()
        for future in futures:
            recorded.merge(future.result())
        recorded.compact()
        end = perf_counter_ns()
        if self.spec.loads and not self.shared.stopped() and self._finishes():
            recorded.merge(self._finish(client, zero))
            end = perf_counter_ns()
        status = {}
        if reports:
            after = client.status()
            status = {name: after[name] - before.get(name, 0.0) for name in after}
        size = client.disk_bytes() if reports else None
        whole = None
        if step.params.rate is not None:
            whole = Paced()
            for one in paced:
                whole.merge(one)
        return Done(recorded, end, status, size, loaded, refused, notes, whole, merge_marks(marks))

    def _loop(
        self,
        step: Step,
        thread: int,
        context: ClientContext,
        operations: Iterator[Operation],
        recorder: Recorder,
        failed: threading.Event,
    ) -> Paced | None:
        """Run one client's operations; what it says of its pace where it has one."""
        params: PhaseParams = step.params
        common: dict[str, Any] = {
            "deadline": None
            if params.seconds is None
            else recorder.zero + int(params.seconds * NS),
            "stopped": lambda: self.shared.stopped() or failed.is_set(),
            "progress": lambda o, d: self.shared.report(self.process, thread, o, d, recorder.owned),
            "fatal": self.fatal,
        }
        if params.rate is None:
            closed_loop(operations, recorder, **common)
            return None
        intended = arrivals(
            params.arrivals, params.rate, context.client, context.clients, context.seed, step.number
        )
        return open_loop(operations, recorder, intended, share=context.share, **common)

    def _flush(self, client: Client, step: Step, recorder: Recorder) -> None:
        """Send what a client has gathered; a server that was killed on purpose may not take it."""
        start = perf_counter_ns()
        try:
            client.flush()
        except StorewiseError as error:
            if step.params.crash is None or isinstance(error, Aborted):
                raise
            recorder.error(f"flush: {error}")
            code = recorder.code(self.spec.operations[0])
            recorder.record(code, start, start, perf_counter_ns(), 0, 0, error=True)

    def _finishes(self) -> bool:
        """Whether this process ends the load: each of its own embedded store, one of a server."""
        if self.engine.flags.embedded:
            return True
        self.connection.send(Loaded())
        finish: Finish = self.connection.recv()
        return finish.by == self.process

    def _finish(self, client: Client, zero: int) -> Recorded:
        start = perf_counter_ns()
        recorder = Recorder(zero, ready=start)
        client.finish()
        recorder.record(recorder.code("finish"), start, start, perf_counter_ns(), 0, 0)
        return recorder.result()
