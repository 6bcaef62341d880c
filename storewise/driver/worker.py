"""A worker job: one phase of a trial on one host, from its client processes to its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from storewise.driver.client_pool import Pool
from storewise.driver.client_process import FINISH_OPERATION, Message
from storewise.driver.earlier_phases import read_earlier
from storewise.driver.embedded_stores import inputs_kept, make_stores
from storewise.driver.progress import StepProgress
from storewise.driver.rate_search import RateSearch
from storewise.driver.results import ProcessResult, StepResult, step_intervals, step_samples
from storewise.driver.step_faults import StepFaults
from storewise.driver.worker_job import Step, WorkerJob, steps_of, versions
from storewise.engines.registry import engine as engine_named
from storewise.errors import ConfigError, StorewiseError
from storewise.metrics.canary import run_canary
from storewise.metrics.hdr import write_log
from storewise.metrics.host import file_system, is_network
from storewise.metrics.inodes import count_inodes
from storewise.metrics.sampler import Sampler, Watched, elect
from storewise.metrics.schema import Sample
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.cluster import LOADED
from storewise.session.coordination.trial_part import write_trial_part
from storewise.workloads.alignments.stored_files import write_files
from storewise.workloads.registry import workload as workload_named

#: A warning says so where more than this fraction of a target rate was missed.
MAX_MISSED = 0.05


def run_worker(job: WorkerJob, check: Callable[[], None], log: logging.Logger) -> None:
    """Run one worker of one phase and write its result part, its interval log and, after a load,
    the list of the files that it stored; nothing is written unless all went well.

    `check` is called about twice a second and raises Aborted when the trial is to end. Raises
    that, the first error of a client, or StorewiseError for a client process that was killed; no
    client process is left in any case.
    """
    worker = _Worker(job, check, log)
    try:
        worker.run()
    finally:
        worker.progress.remove()


class _Worker:
    def __init__(self, job: WorkerJob, check: Callable[[], None], log: logging.Logger) -> None:
        self.job, self.check, self.log = job, check, log
        self.engine = engine_named(job.trial.engine)
        self.embedded = self.engine.flags.embedded
        self.spec = workload_named(job.trial.workload).phases[job.phase]
        self.steps = steps_of(job.trial, self.spec)
        self.progress = StepProgress(job.live, f"{job.phase}.{job.worker}", log)
        self.results: list[StepResult] = []
        self.searches: list[RateSearch] = []
        self.samples: list[Sample] = []
        self.warnings: list[str] = []
        self.sampled_disk: str | None = None

    def run(self) -> None:
        self.prepare()
        trial = self.job.trial
        threads = max(s.clients.most(trial.workers, trial.processes) for s in self.steps)
        with ExitStack() as stack:
            self.pool = stack.enter_context(closing(Pool(self.job, threads, self.check, self.log)))
            self.faults = StepFaults(self.job, self.meet, self.pool.check, self.log)
            self.run_steps()
            self.pool.send(Message.END)
            self.pool.gather()
            self.pool.join()
            # The files that clients have beside their stores while they work have gone.
            self.count_files()
        if self.spec.loads and self.job.worker == 0:
            (self.job.live / LOADED).touch()
        self.write()

    def prepare(self) -> None:
        """Make the stores, run the canary and read the notes of earlier phases."""
        job, trial = self.job, self.job.trial
        if not 0 <= job.worker < trial.workers:
            raise ConfigError(f"worker {job.worker}: the trial has workers 0..{trial.workers - 1}")
        if self.spec.loads and self.embedded:
            if job.store is None:
                raise ConfigError(f"phase {job.phase!r} loads and needs a store directory")
            make_stores(job.store, trial.processes)
        if job.phase == trial.phases[0].name and elect(job.live, "canary"):
            self.samples += run_canary(job.store or job.live, phase=job.phase)
        self.samples_host = elect(job.live, f"sampler-{job.phase}")
        self.log.info(
            "%s: worker %d of %d, %d processes, engine %s",
            job.phase,
            job.worker,
            trial.workers,
            trial.processes,
            trial.engine,
        )
        self.job = read_earlier(job, self.check)

    def run_steps(self) -> None:
        """All steps of the phase; where a rate is searched for, each result decides on the next."""
        for planned in self.steps:
            step: Step | None = replace(planned, number=len(self.results))
            search = None
            if planned.params.search is not None:
                search = RateSearch(self.job, planned, planned.params.search, len(self.results))
                self.searches.append(search)
                step = search.next_step()
            while step is not None:
                result = self.run_step(step)
                if search is None:
                    break
                self.log.info("step %d: %s", step.number, search.record(result, self.meet))
                step = search.next_step()

    def run_step(self, step: Step) -> StepResult:
        """One step: prepare, start with all workers, run, record, judge."""
        self.prepare_clients(step)
        self.faults.begin(step)
        self.meet(f"{self.job.phase}-{step.number}")
        result = self.measure(step)
        self.samples += self.faults.end(result)
        self.record(result)
        self.judge(result)
        return result

    def prepare_clients(self, step: Step) -> None:
        if step.params.restart:
            self.pool.send(Message.DISCONNECT)
            self.pool.gather()
            self.faults.restart(step)
        self.pool.counters.clear()
        self.progress.state("prepares", step.number)
        self.pool.send(step)
        self.pool.gather()
        self.log.info("step %d: ready, waiting for the other workers", step.number)
        self.progress.state("waits", step.number)

    def measure(self, step: Step) -> StepResult:
        """Start the clients, which are ready, and sample the host until they have ended."""
        job, pool = self.job, self.pool
        sampler = Sampler(self.watched(), phase=job.phase, worker=job.worker, step=step.number)
        self.sampled_disk = sampler.disk
        started_at, zero = time.time(), time.perf_counter_ns()
        pool.send(zero)
        sampler.start(zero)
        try:
            self.faults.started(step, started_at)
            self.progress.begin(pool.counters, step.number, sampler.latest)
            processes: list[ProcessResult] = pool.gather(self.progress)
            if self.spec.loads and not self.embedded:
                self.meet(f"{job.phase}-loaded")
                if job.worker == 0:
                    pool.send(Message.FINISH, to=0)
                    processes[0].add_finish(*pool.gather(self.progress, of=0))
        finally:
            samples = sampler.stop()
        result = StepResult(step, zero, started_at, processes)
        self.samples += [
            s._replace(warmup=s.second is not None and result.is_warmup(s.second)) for s in samples
        ]
        return result

    def record(self, result: StepResult) -> None:
        job = self.job
        self.results.append(result)
        self.samples += step_samples(
            result, job.phase, job.worker, job.trial.workers, loads=self.spec.loads
        )
        for refused in (r for process in result.processes for r in process.refused):
            self.log.warning("left out: %s", refused.reason)

    def judge(self, result: StepResult) -> None:
        """Log the step's totals and warnings; raise if no operation succeeded."""
        step, counters = result.step, list(result.counters())
        operations = sum(counter.operations for _, counter in counters)
        errors = sum(counter.errors for _, counter in counters)
        # That a load could be ended does not mean that the store took any of it.
        served = any(c.operations for s, c in counters if s.operation != FINISH_OPERATION)
        self.log.info(
            "step %d: %d operations, %d documents, %d errors in %.2f s",
            step.number,
            operations,
            sum(counter.documents for _, counter in counters),
            errors,
            result.duration,
        )
        if errors:
            first = next(e for p in result.processes if (e := p.recorded.first_error))
            text = f"{errors} of {operations + errors} operations failed, the first with: {first}"
            if not served and not step.kills_nodes:
                raise StorewiseError(f"{self.job.phase}, step {step.number}: {text}")
            self.warn(step, text)
        pace = result.pace
        if pace is not None and pace.missed > MAX_MISSED and step.params.search is None:
            self.warn(
                step,
                f"the target rate of {step.params.rate:g} operations/s was missed by "
                f"{100 * pace.missed:.0f} %: {pace.unserved} of {pace.intended} operations had "
                "not begun when the step ended",
            )

    def warn(self, step: Step, text: str) -> None:
        self.log.warning("step %d: %s", step.number, text)
        self.warnings.append(f"{self.job.phase}, step {step.number}: {text}")

    def meet(self, name: str) -> None:
        """Wait at the barrier `name` for all workers of the phase."""
        parties = [str(worker) for worker in range(self.job.trial.workers)]
        Barrier(self.job.live, parties, name).wait(str(self.job.worker), self.pool.check)

    def watched(self) -> Watched:
        """Processes and disk to sample; for servers, the nodes' samplers measure the store."""
        job = self.job
        store: tuple[Path, ...] = ()
        if self.embedded and job.store is not None:
            store = (job.store,)
        elif self.embedded and job.worker == 0:
            store = job.stores
        return Watched(
            clients=self.pool.pids,
            embedded=self.embedded,
            routers=job.routers,
            store=store,
            disk_path=job.store or next(iter(job.stores), job.live),
            host=self.samples_host,
        )

    def count_files(self) -> None:
        """Count files and directories of embedded stores after the load (nodes count those of
        servers); nothing where some lie on S3."""
        job, store = self.job, self.job.store
        if not (self.spec.loads and self.embedded and self.engine.flags.stores) or store is None:
            return
        directories, kept = self.engine.directories(job.trial.settings, store), inputs_kept(job)
        if directories is not None and kept is not None:
            samples = (count_inodes(directories) + kept).samples(job.phase)
            self.samples += [s._replace(worker=job.worker) for s in samples]

    def write(self) -> None:
        job = self.job
        for search in self.searches:
            self.samples += search.samples()
            self.warnings += search.warnings()
        base = self.results[0].started_at
        write_log(job.hdr_log, base, (i for r in self.results for i in step_intervals(r, base)))
        if self.spec.loads and job.files is not None:
            write_files(job.files, [f for r in self.results for p in r.processes for f in p.loaded])
        conditions = {**job.conditions, **self.conditions()}
        write_trial_part(job.result, self.samples, job.trial, job.phase, **conditions)

    def conditions(self) -> dict[str, Any]:
        job, trial, flags = self.job, self.job.trial, self.engine.flags
        path = job.store or next(iter(job.stores), None)
        fstype = file_system(path) if path is not None and self.embedded else None
        warnings = [*job.conditions.get("warnings", ()), *self.warnings]
        if flags.embedded and flags.stores and self.spec.changes and trial.shards > 1:
            warnings.append(
                f"{job.phase} changes data: each client process worked on its own one of the "
                f"{trial.shards} stores of {self.engine.title} only, so a scan or a question "
                "that a server answers from all its data was answered from that part"
            )
        if fstype is not None and is_network(fstype):
            warnings.append(
                f"the stores of {job.phase} lie on a network file system ({fstype}): their files "
                "are not locked and written as on a local disk"
            )
        processes = [process for result in self.results for process in result.processes]
        return {
            "worker": job.worker,
            "steps": [
                {
                    **step.params.model_dump(mode="json"),
                    "threads": step.clients.most(trial.workers, trial.processes),
                    "clients": step.clients.all(trial.workers, trial.processes),
                }
                for step in (result.step for result in self.results)
            ],
            "searches": [search.conditions() for search in self.searches],
            "engine": {
                "title": self.engine.title_of(job.versions.get("server", "")),
                "embedded": flags.embedded,
                "stores": flags.stores,
            },
            "versions": {**versions(self.engine, trial.settings), **job.versions},
            "store_file_system": fstype,
            "sampled_host": self.samples_host,
            "sampled_disk": self.sampled_disk or "all",
            "quarantined": [r._asdict() for process in processes for r in process.refused],
            "notes": [note for process in processes for note in process.notes],
            "crashes": self.faults.crashes,
            "warnings": warnings,
        }
