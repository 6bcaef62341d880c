"""A client process: connects to the store once, and in each step runs its client threads.

The worker sends commands over a pipe, and each is answered:

| command | answer |
|---|---|
| a `Step` | READY when all clients have prepared; then the worker sends the step's start (ns of \
perf_counter, which the processes of a host share), and the answer is a `ProcessResult` |
| FINISH | the end of a server's load, as a `ProcessResult` |
| DISCONNECT | CLOSED, when all connections to the store are closed |
| END | CLOSED, and the process ends |

A process that fails sends a `Failure` instead and ends.
"""

from __future__ import annotations

import gc
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from multiprocessing.connection import Connection
from time import perf_counter_ns

from storewise.driver.arrivals import Pace, arrivals
from storewise.driver.embedded_stores import reading_cluster, writing_cluster
from storewise.driver.loops import run_loop
from storewise.driver.progress import SharedCounters
from storewise.driver.results import ProcessResult
from storewise.driver.step_faults import mark_successes
from storewise.driver.worker_job import Step, WorkerJob, load_params, must_succeed
from storewise.engines.contract.engine import Client
from storewise.engines.registry import engine as engine_named
from storewise.errors import Aborted, EngineError, StorewiseError
from storewise.metrics.outages import Marks
from storewise.metrics.recorder import NS, Recorded, Recorder, flush_every
from storewise.session.coordination.ending import NO_MEMORY
from storewise.workloads.contract import ClientContext, Operation
from storewise.workloads.registry import workload as workload_named

#: Name of the operation that ends a load.
FINISH_OPERATION = "finish"


class Message(Enum):
    """Commands and answers without more content."""

    READY = auto()
    FINISH = auto()
    DISCONNECT = auto()
    END = auto()
    CLOSED = auto()


@dataclass(slots=True)
class Failure:
    """The error of a client process: what the worker raises, and the traceback for its log."""

    error: Exception
    trace: str


def client_process(
    job: WorkerJob,
    process: int,
    connection: Connection,
    counters: SharedCounters,
    tie: Callable[[], None],
) -> None:
    """The whole life of a client process; `tie` makes it die with its parent."""
    # The worker's handlers are not for its clients: it ends them itself.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie()
    serve(job, process, connection, counters)


def serve(job: WorkerJob, process: int, connection: Connection, counters: SharedCounters) -> None:
    """Execute the worker's commands until END; a failure is sent to it."""
    with suppress(OSError):  # of the pipe: the worker has gone
        try:
            _ClientProcess(job, process, connection, counters).run()
        except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
            connection.send(_failure_of(error, process))


def _failure_of(error: BaseException, process: int) -> Failure:
    text = f"{type(error).__name__}: {error}"
    raised: Exception
    if isinstance(error, StorewiseError):
        raised = error
        try:
            pickle.loads(pickle.dumps(error))
        except (pickle.PicklingError, TypeError, AttributeError):
            raised = StorewiseError(str(error))
    elif isinstance(error, MemoryError):
        raised = StorewiseError(NO_MEMORY)
    elif isinstance(error, OSError):
        raised = StorewiseError(text)
    else:
        raised = RuntimeError(f"client process {process} failed: {text}")
    return Failure(raised, "".join(traceback.format_exception(error)))


class _ClientProcess:
    def __init__(
        self, job: WorkerJob, process: int, connection: Connection, counters: SharedCounters
    ) -> None:
        self.job, self.process = job, process
        self.connection, self.counters = connection, counters
        trial = job.trial
        self.engine = engine_named(trial.engine)
        self.workload = workload_named(trial.workload)
        self.spec = self.workload.phases[job.phase]
        self.load = load_params(trial, self.workload.phases[trial.load.name])
        self.notes_before = job.notes
        self.client: Client | None = None
        self.embedded = self.engine.flags.embedded
        #: An embedded store has one writing process: a phase that changes data works on its own.
        self.one_store = self.embedded and self.spec.changes
        self.fatal = self.spec.loads and (self.embedded or must_succeed(self.engine, trial))
        self.zero = 0

    def run(self) -> None:
        try:
            command = None
            while command is not Message.END:
                command = self.connection.recv()
                self.connection.send(self._obey(command))
        finally:
            # After an error only: a server sees that the process ends, a store in it leaves files.
            if self.client is not None and self.embedded:
                with suppress(EngineError):  # the error that ends the process says more
                    self.client.close()

    def _obey(self, command: Step | Message) -> ProcessResult | Message:
        if isinstance(command, Step):
            return self._run_step(self.client or self._connect(), command)
        if self.client is not None:
            if command is Message.FINISH:
                return self._finish(self.client, ProcessResult())
            if self.one_store:
                self.client.finish()
            self.client.close()
            self.client = None
        return Message.CLOSED

    def _connect(self) -> Client:
        job, writes = self.job, self.spec.loads or self.spec.changes
        cluster = job.cluster
        if cluster is None and writes:
            cluster = writing_cluster(job, self.process, self.notes_before)
        elif cluster is None:
            cluster = reading_cluster(job, self.notes_before)
        self.client = self.engine.connect(cluster, "write" if writes else "read")
        if writes and self.embedded:
            self.client.create(self.job.trial.store_schema())
        return self.client

    def _run_step(self, client: Client, step: Step) -> ProcessResult:
        """Prepare all client threads, start them together, and add up what they recorded."""
        result = ProcessResult()
        _, threads = self._clients_here(step)
        # Passed twice by all: when the clients have prepared, and when the step starts.
        gate = threading.Barrier(threads + 1)
        # A step may have fewer clients than there are processes: those without keep step.
        with ThreadPoolExecutor(max(1, threads), thread_name_prefix="client") as pool:
            futures = [
                pool.submit(self._run_client, client, step, thread, gate, result)
                for thread in range(threads)
            ]
            try:
                gate.wait()
                # Exclude existing objects from garbage collection: they live until the end.
                gc.collect()
                gc.freeze()
                self.connection.send(Message.READY)
                self.zero = self.connection.recv()
                gate.wait()
            except threading.BrokenBarrierError:
                pass  # a client has failed: its error is raised below
            except BaseException:
                gate.abort()
                raise
        result.end = perf_counter_ns()
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error
        for future in futures:
            result.add_client(*future.result())
        result.recorded.compact()
        self.notes_before += tuple(result.notes)
        if self.spec.loads and self.embedded and not self.counters.stopped():
            self._finish(client, result)
        return result

    def _run_client(
        self,
        client: Client,
        step: Step,
        thread: int,
        gate: threading.Barrier,
        result: ProcessResult,
    ) -> tuple[Recorded, Pace | None, Marks]:
        """One client in one step; a failure breaks the `gate`, which ends the others."""
        marks: Marks = {}
        try:
            mine = client.open_thread()
            try:
                context = self._context(step, thread, result)
                operations = self.workload.operations(self.job.phase, mine, context)
                if step.kills_nodes:
                    operations = mark_successes(operations, marks)
                gate.wait()
                gate.wait()
                recorder = Recorder(self.zero, every=flush_every(context.threads))
                pace = self._loop(step, context, operations, recorder, lambda: gate.broken)
                if self.spec.loads or self.spec.changes:
                    self._flush(mine, step, recorder)
                # In an open loop the time after the last operation is a wait, not preparation.
                recorded = recorder.result(perf_counter_ns() if pace is None else None)
                return recorded, pace, marks
            finally:
                mine.close_thread()
        except BaseException:
            gate.abort()
            raise

    def _clients_here(self, step: Step) -> tuple[int, int]:
        """The number of this process's first client in a step, and how many it has."""
        trial = self.job.trial
        return step.clients.here(self.job.worker, trial.workers, self.process, trial.processes)

    def _context(self, step: Step, thread: int, result: ProcessResult) -> ClientContext:
        job, trial = self.job, self.job.trial
        first, threads = self._clients_here(step)
        return ClientContext(
            engine=self.engine,
            schema=trial.store_schema(),
            params=step.params,
            shards=job.shards,
            client=first + thread,
            clients=step.clients.all(trial.workers, trial.processes),
            shard=job.worker * trial.processes + self.process,
            processes=trial.workers * trial.processes,
            thread=thread,
            threads=threads,
            seed=trial.seed,
            step=step.number,
            phase=job.phase,
            written=job.written,
            loaded=result.loaded,
            quarantine=trial.on_bad_input == "quarantine",
            refused=result.refused,
            load=self.load,
            notes=result.notes,
            before=self.notes_before,
            stores=trial.shards if self.embedded else 0,
            one_store=self.one_store,
        )

    def _loop(
        self,
        step: Step,
        context: ClientContext,
        operations: Iterator[Operation],
        recorder: Recorder,
        failed: Callable[[], bool],
    ) -> Pace | None:
        """Run one client's operations; returns its delays in an open loop."""
        params, counters = step.params, self.counters
        place = (self.process, context.thread)
        intended = None
        if params.rate is not None:
            client, clients = context.client, context.clients
            intended = arrivals(
                params.arrivals, params.rate, client, clients, context.seed, step.number
            )
        return run_loop(
            operations,
            recorder,
            intended,
            count=context.share,
            deadline=recorder.zero + int(params.seconds * NS) if params.seconds else None,
            stopped=lambda: counters.stopped() or failed(),
            progress=lambda o, d: counters.report(*place, o, d, recorder.owned),
            fatal=self.fatal,
        )

    def _flush(self, client: Client, step: Step, recorder: Recorder) -> None:
        """Send what a client has buffered; a server that was killed on purpose may refuse it."""
        start = perf_counter_ns()
        try:
            client.flush()
        except StorewiseError as error:
            if not step.kills_nodes or isinstance(error, Aborted):
                raise
            recorder.error(f"flush: {error}")
            code = recorder.code(self.spec.operations[0])
            recorder.record(code, start, start, perf_counter_ns(), 0, 0, error=True)

    def _finish(self, client: Client, result: ProcessResult) -> ProcessResult:
        """End the load: of the process's own store, or of the server's."""
        start = perf_counter_ns()
        recorder = Recorder(self.zero, ready=start)
        client.finish()
        recorder.record(recorder.code(FINISH_OPERATION), start, start, perf_counter_ns(), 0, 0)
        result.recorded.merge(recorder.result())
        result.end = perf_counter_ns()
        # Some stores flush and change their schema for this: only after a load, because in other
        # steps, other workers may still be measured.
        result.disk_bytes = client.disk_bytes()
        return result
