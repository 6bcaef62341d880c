"""What jobs of workers and nodes do in the simulation: all that the real ones do, but for the
Snakemake of the job itself and for the clients of a worker, which here do nothing.

A worker's job goes through `run_phase_job`: it joins its trial, waits for files of earlier phases,
meets the others at the barriers, samples its host, and writes its parts. Each worker takes itself
for a host of its own. A node's job goes through `run_node` with a small server.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pyarrow as pa

from storewise.driver import phase_job, worker
from storewise.driver.client_pool import CHECK_EVERY
from storewise.driver.client_process import Message
from storewise.driver.phase_job import PhaseJob, run_phase_job
from storewise.driver.progress import SharedCounters
from storewise.driver.results import ProcessResult
from storewise.driver.worker import _Worker
from storewise.driver.worker_job import Step, WorkerJob
from storewise.engines.contract.engine import Endpoint
from storewise.metrics.recorder import NS, Recorder
from storewise.metrics.sampler import ProcessGroup, Sampler
from storewise.metrics.schema import Sample
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.cluster import (
    CLUSTER,
    FormedCluster,
    make_credentials,
    write_cluster,
)
from storewise.session.coordination.liveness import Session
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.node import NodeJob, run_node
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.workloads.registry import workload

#: Seconds for which the clients of a step seem to work, and the operations that they seem to do.
WORK_SECONDS = 1.0
OPERATIONS = 200
#: Workers that write at the same time.
WRITERS = 16
_TARGET = re.compile(r"--target-jobs '?([^\s']+)")
_MARK = re.compile(r"^echo \$\$ > (.+)\.started$", re.MULTILINE)


class Journal:
    """Lines of JSON that several processes append."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, what: Any, **more: Any) -> None:
        line = json.dumps({"at": time.time(), "event": event, "what": what, **more})
        os.write(self._file, line.encode() + b"\n")


def target_of(script: str) -> str:
    """The target of a job: its rule, and its wildcards after a colon."""
    target = _TARGET.search(script)
    return target[1] if target else ""


def stub_of(script: str) -> tuple[str, dict[str, str], Path, Path] | None:
    """Rule, wildcards, mark and directory of a job that is simulated; None if its script is run."""
    mark = _MARK.search(script)
    rule, _, wildcards = target_of(script).partition(":")
    if mark is None or rule not in {"load", "phase", "node"}:
        return None
    values = dict(pair.split("=", 1) for pair in wildcards.split(","))
    directory = re.findall(r"^cd (.+?) (?:\|\||&&)", script, re.MULTILINE)[0]
    return rule, values, Path(shlex.split(mark[1])[0]), Path(shlex.split(directory)[0])


class Stub:
    """Simulates jobs of one study's trials."""

    def __init__(self, study: Study, job_seconds: float) -> None:
        self.study, self.job_seconds = study, job_seconds
        self.trials = {trial.id: trial for trial in study.trials()}
        self.phases = workload(study.workload).phases

    def run(
        self, rule: str, values: dict[str, str], mark: Path, directory: Path, journal: Journal
    ) -> int:
        """Simulate a job and write its marks, as its script would; returns its exit status."""
        mark.with_name(f"{mark.name}.started").touch()
        os.chdir(directory)
        time.sleep(self.job_seconds)
        try:
            self._run(rule, values, journal)
            status = 0
        except SystemExit as end:
            print(end.code)
            status = 1
        aside = mark.with_name(f"{mark.name}.exit.tmp")
        aside.write_text(f"{status}\n")
        aside.replace(mark.with_name(f"{mark.name}.exit"))
        return status

    def _run(self, rule: str, values: dict[str, str], journal: Journal) -> None:
        trial = self.trials[values["trial"]]
        results = Path("results") / self.study.name
        session = results / "live" / trial.id / "session.json"
        logs = results / "logs" / trial.id
        if rule == "node":
            self._node(trial, values["node"], results, session, logs)
            return
        phase = values.get("phase", trial.load.name)
        job = PhaseJob(
            trial=trial,
            phase=phase,
            first=int(values["worker"]),
            per_job=self.study.workers_per_job,
            results=results,
            session=session,
            logs=logs,
            served=True,
            loads=self.phases[phase].loads,
            shards=None,
            inputs=(session,),
        )
        with (
            mock.patch.object(worker, "Pool", HollowPool),
            mock.patch.object(worker, "run_canary", canary),
            mock.patch.object(worker, "Sampler", partial(Sampler, wait=until_the_end)),
            mock.patch.object(worker, "Barrier", noted_barrier(journal)),
            mock.patch.object(_Worker, "write", few_at_a_time(_Worker.write)),
            mock.patch.object(phase_job, "run_one", on_own_host(phase_job.run_one, journal)),
        ):
            run_phase_job(job)

    def _node(self, trial: Trial, name: str, results: Path, session: Path, logs: Path) -> None:
        result = results / "trials" / trial.id / f"node.{name}.parquet"
        result.parent.mkdir(parents=True, exist_ok=True)
        with (
            mock.patch.object(ProcessGroup, "_members", alone),
            trial_job(results, session, name, logs / f"{name}.log") as frame,
        ):
            run_node(
                NodeJob(
                    trial=trial,
                    node=name,
                    result=result,
                    server_log=logs / f"{name}.server.log",
                    kept=result.with_name(f"data.{name}"),
                    runtime_minutes=720.0,
                ),
                frame,
            )


def load(study: str, job_seconds: float) -> Stub:
    """Prepare the jobs of a study (path of its file): import their modules and use them once."""
    stubs = Stub(load_study(study, root=Path(study).parent), job_seconds)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        rehearse(Path(study).read_text())
        os.chdir(here)
    return stubs


def rehearse(text: str) -> None:
    """Run the phases of a study once with one worker, in this process: late imports and other work
    that each job would repeat are then done."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    study = Path("rehearsal.yaml")
    text = re.sub(r"workers: \[\d+\]", "workers: [1]", text)
    study.write_text(re.sub(r"per_job: \d+", "per_job: 1", text))
    stubs = Stub(load_study(str(study), root=Path()), 0.0)
    ((name, trial),) = stubs.trials.items()
    results = Path("results") / stubs.study.name
    live = results / "live" / name
    for directory in (live, results / "leases"):
        directory.mkdir(parents=True)
    (results / "leases" / "run").touch()
    make_credentials(live)
    Session(name, "run", 180.0, time.time()).write(live)
    node = Endpoint("data", 0, "n", "127.0.0.1", 1)
    formed = FormedCluster((node,), {node.name: "1"}, {node.name: ""}, time.time(), 0.0)
    write_cluster(live / CLUSTER, formed)
    journal = Journal(Path("journal"))
    for phase in trial.phases:
        rule = "load" if phase is trial.load else "phase"
        values = {"trial": name, "worker": "0", "phase": phase.name}
        stubs._run(rule, values, journal)


def on_own_host(
    run_one: Callable[[PhaseJob, int], None], journal: Journal
) -> Callable[[PhaseJob, int], None]:
    """A worker that reports figures as if it had a host of its own."""

    def run(job: PhaseJob, number: int) -> None:
        if os.getsid(0) != os.getpid():
            # Linux shares processors out by sessions: workers of one job would have one share.
            os.setsid()
        share = job.share
        share.directory.mkdir(parents=True, exist_ok=True)
        if job.loads:
            # As Snakemake does for outputs.
            share.store(number).parent.mkdir(parents=True, exist_ok=True)
        with mock.patch.object(socket, "gethostname", lambda: f"w{number:04}"):
            journal.write("works", job.phase, worker=number)
            run_one(job, number)
        journal.write("done", job.phase, worker=number)

    return run


def until_the_end(done: threading.Event, seconds: float) -> bool:
    """Take one sample, at the end of a step: a thousand hosts would sample this one."""
    return done.wait()


def alone(group: ProcessGroup) -> list[psutil.Process]:
    """A server without child processes: to look for them means to read all processes of the
    host."""
    return [psutil.Process(pid) for pid in group._pids if psutil.pid_exists(pid)]


def few_at_a_time(write: Callable[[_Worker], None]) -> Callable[[_Worker], None]:
    """Limit how many workers write parts at once: a thousand would need 15 GB of memory."""

    def run(self: _Worker) -> None:
        lock = self.job.live / f".writes.{self.job.worker % WRITERS}"
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            write(self)

    return run


def noted_barrier(journal: Journal) -> type[Barrier]:
    class Noted(Barrier):
        def wait(self, me: str, check: Callable[[], None]) -> None:
            journal.write("arrives", self._directory.name, worker=me)
            super().wait(me, check)
            journal.write("released", self._directory.name, worker=me)

    return Noted


def canary(directory: Path, *, phase: str) -> list[Sample]:
    """Skip the work of the canary, which a thousand processes on one host would disturb."""
    return [
        Sample(phase, "canary_cpu", 400_000.0, "1/s"),
        Sample(phase, "canary_disk_write", 1e9, "B/s"),
        Sample(phase, "canary_disk_read", 1e9, "B/s"),
    ]


class HollowPool:
    """A pool of client processes without processes."""

    def __init__(
        self, job: WorkerJob, threads: int, check: Callable[[], None], log: object
    ) -> None:
        self._check, self._next_check = check, 0.0
        self._spec = workload(job.trial.workload).phases[job.phase]
        self.counters = SharedCounters(1, threads)
        #: None whose children would be looked for (`alone`).
        self.pids: dict[int, int] = {}
        self._zero = 0
        self._message: object = None

    def check(self) -> None:
        if time.monotonic() >= self._next_check:
            self._check()
            self._next_check = time.monotonic() + CHECK_EVERY

    def send(self, message: object, to: int | None = None) -> None:
        if isinstance(message, int):
            self._zero = message
        self._message = message

    def gather(self, idle: Callable[[], None] | None = None, of: int | None = None) -> list[Any]:
        if isinstance(self._message, Step):
            return [Message.READY]
        if self._message is Message.FINISH:
            return [ProcessResult(end=time.perf_counter_ns())]
        if isinstance(self._message, Message):
            return [Message.CLOSED]
        until = time.monotonic() + WORK_SECONDS
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(CHECK_EVERY, left))
            self.check()
            if idle is not None:
                idle()
        return [self._result()]

    def _result(self) -> ProcessResult:
        recorder = Recorder(self._zero)
        code = recorder.code(self._spec.operations[0])
        each = int(WORK_SECONDS * NS / OPERATIONS)
        for number in range(OPERATIONS):
            start = self._zero + number * each
            recorder.record(code, start, start, start + each // 2, 1, 100)
        return ProcessResult(recorder.result(), time.perf_counter_ns())

    def join(self) -> None:
        pass

    def close(self) -> None:
        pass
