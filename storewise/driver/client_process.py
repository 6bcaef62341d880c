"""Client processes and their threads: the side that works.

A worker job forks its client processes; each connects once, and in each step runs its client
threads. For each step a process gets the `Step` over its pipe, prepares, says READY, gets the
step's start (ns of perf_counter, which the processes of a host share), and answers with `Done`.
Where the step loads a server, it says LOADED when its clients are done, and gets the number of the
process that ends the load (None where that is another worker's) before it answers. Between two
steps it may get DISCONNECT, and at last END; it answers CLOSED. Or it says `Failure` once and ends.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from multiprocessing.connection import Connection
from time import perf_counter_ns

from storewise.driver.arrivals import Paced, arrivals
from storewise.driver.embedded_stores import reading_cluster, writing_cluster
from storewise.driver.loops import run_loop
from storewise.driver.progress import SharedCounters
from storewise.driver.results import Done
from storewise.driver.step_faults import marked
from storewise.driver.worker_job import Step, WorkerJob, load_params, must_succeed
from storewise.engines.contract.engine import Client
from storewise.engines.registry import engine as engine_named
from storewise.errors import Aborted, EngineError, StorewiseError
from storewise.metrics.outages import Marks
from storewise.metrics.outages import merged as merge_marks
from storewise.metrics.recorder import NS, Recorded, Recorder, flush_every
from storewise.session.coordination.ending import NO_MEMORY
from storewise.workloads.contract import ClientContext, Operation
from storewise.workloads.registry import workload as workload_named

#: The operation that ends a load.
FINISH = "finish"


class Word(Enum):
    """What is said without more."""

    READY = auto()
    LOADED = auto()
    DISCONNECT = auto()
    """Close all clients: the servers will be restarted."""
    END = auto()
    CLOSED = auto()


@dataclass(slots=True)
class Failure:
    """Why a process ended. `error` is the exception where it is one of ours."""

    error: StorewiseError | None
    text: str
    trace: str


@contextmanager
def _reported(connection: Connection) -> Iterator[None]:
    """Sends whatever ends the block to the parent, as a `Failure`; OSError where nobody hears."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - handed to the parent, which raises it
        text = f"{type(error).__name__}: {error}"
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
        connection.send(Failure(ours, text, "".join(traceback.format_exception(error))))


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
    counters: SharedCounters,
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
    try:
        serve(job, process, connection, counters)
    except OSError:
        os._exit(1)  # nobody is there to hear it


def serve(job: WorkerJob, process: int, connection: Connection, counters: SharedCounters) -> None:
    """Do what the worker says over its pipe until it says END; what goes wrong is told to it."""
    with _reported(connection):
        _Process(job, process, connection, counters).run()


class _Process:
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
        self.before = job.notes
        self.client: Client | None = None
        self.embedded = self.engine.flags.embedded
        #: An embedded store has one writing process: a phase that changes data works on its own.
        self.one_store = self.embedded and self.spec.changes
        self.fatal = self.spec.loads and (self.embedded or must_succeed(self.engine, trial))
        # An embedded store is one per process; of a server one process of the trial tells its size.
        self.tells_size = self.spec.loads and (self.embedded or job.worker == process == 0)

    def run(self) -> None:
        try:
            self._obey()
        finally:
            # After an error only: a server sees that the process ends, a store in it leaves files.
            if self.client is not None and self.embedded:
                with suppress(EngineError):  # the error that ends the process says more
                    self.client.close()

    def _obey(self) -> None:
        while True:
            order: Step | Word = self.connection.recv()
            if isinstance(order, Step):
                done = self._step(self.client or self._connect(), order)
                self.before += tuple(done.notes)
                self.connection.send(done)
                continue
            if self.client is not None:
                if self.one_store:
                    self.client.finish()
                self.client.close()
                self.client = None
            self.connection.send(Word.CLOSED)
            if order is Word.END:
                return

    def _connect(self) -> Client:
        job, writes = self.job, self.spec.loads or self.spec.changes
        cluster = job.cluster
        if cluster is None and writes:
            cluster = writing_cluster(job, self.process, self.before)
        elif cluster is None:
            cluster = reading_cluster(job, self.before)
        self.client = self.engine.connect(cluster, "write" if writes else "read")
        if writes and self.embedded:
            self.client.create(self.job.trial.store_schema())
        return self.client

    def _context(self, step: Step, thread: int, done: Done) -> ClientContext:
        job, trial = self.job, self.job.trial
        first, threads = self._here(step)
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
            loaded=done.loaded,
            quarantine=trial.on_bad_input == "quarantine",
            refused=done.refused,
            load=self.load,
            notes=done.notes,
            before=self.before,
            stores=trial.shards if self.embedded else 0,
            one_store=self.one_store,
        )

    def _here(self, step: Step) -> tuple[int, int]:
        """The number of this process's first client in a step, and how many it has."""
        trial = self.job.trial
        return step.clients.here(self.job.worker, trial.workers, self.process, trial.processes)

    def _step(self, client: Client, step: Step) -> Done:
        done = Done(Recorded(), 0, None)
        marks: list[Marks] = []
        _, threads = self._here(step)
        gate = threading.Barrier(threads + 1)
        go = threading.Event()
        failed = threading.Event()
        zero = 0

        def run(thread: int) -> tuple[Recorded, Paced | None]:
            try:
                mine = client.open_thread()
                try:
                    context = self._context(step, thread, done)
                    operations = self.workload.operations(self.job.phase, mine, context)
                    if step.params.crash is not None:
                        marks.append({})
                        operations = marked(operations, marks[-1])
                    gate.wait()
                    go.wait()
                    recorder = Recorder(zero, every=flush_every(threads))
                    pace = self._loop(step, thread, context, operations, recorder, failed)
                    if self.spec.loads or self.spec.changes:
                        self._flush(mine, step, recorder)
                    # In an open loop the time after the last operation is a wait, not preparation.
                    return recorder.result(perf_counter_ns() if pace is None else None), pace
                finally:
                    mine.close_thread()
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
            # What is alive now stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            self.connection.send(Word.READY)
            zero = self.connection.recv()
            go.set()
        paced = Paced()
        for future in futures:
            recorded, pace = future.result()
            done.recorded.merge(recorded)
            if pace is not None:
                paced.merge(pace)
        done.recorded.compact()
        done.end = perf_counter_ns()
        if self.spec.loads and not self.counters.stopped() and self._finishes():
            done.recorded.merge(self._finish(client, zero))
            done.end = perf_counter_ns()
        # Some stores flush and change their schema for this. Ask only after a load: in other
        # steps, other workers may still be measured.
        if self.tells_size and step.params.crash is None:
            done.disk_bytes = client.disk_bytes()
        if step.params.rate is not None:
            done.paced = paced
        done.marks = merge_marks(marks)
        return done

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
        params, counters = step.params, self.counters
        intended = None
        if params.rate is not None:
            number, all_ = context.client, context.clients
            intended = arrivals(
                params.arrivals, params.rate, number, all_, context.seed, step.number
            )
        return run_loop(
            operations,
            recorder,
            intended,
            share=context.share,
            deadline=recorder.zero + int(params.seconds * NS) if params.seconds else None,
            stopped=lambda: counters.stopped() or failed.is_set(),
            progress=lambda o, d: counters.report(self.process, thread, o, d, recorder.owned),
            fatal=self.fatal,
        )

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
        if self.embedded:
            return True
        self.connection.send(Word.LOADED)
        number: int | None = self.connection.recv()
        return number == self.process

    def _finish(self, client: Client, zero: int) -> Recorded:
        start = perf_counter_ns()
        recorder = Recorder(zero, ready=start)
        client.finish()
        recorder.record(recorder.code(FINISH), start, start, perf_counter_ns(), 0, 0)
        return recorder.result()
