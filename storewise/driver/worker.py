"""A worker job: one phase of a trial on one host, from its client processes to its result."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from storewise.driver.client_pool import Pool
from storewise.driver.client_process import FINISH, Word
from storewise.driver.earlier_phases import read_earlier
from storewise.driver.embedded_stores import inputs_kept, make_stores
from storewise.driver.progress import StepProgress
from storewise.driver.rate_search import (
    Tried,
    answer,
    judge,
    leave,
    next_rate,
    summaries,
    summary_of,
)
from storewise.driver.results import Done, StepDone, step_intervals, step_samples
from storewise.driver.step_faults import StepFaults
from storewise.driver.worker_job import Step, WorkerJob, steps_of
from storewise.engines.contract.engine import Engine
from storewise.engines.registry import engine as engine_named
from storewise.errors import ConfigError, StorewiseError
from storewise.metrics.canary import run_canary
from storewise.metrics.census import Census
from storewise.metrics.hdr import write_log
from storewise.metrics.host import file_system, is_network
from storewise.metrics.sampler import Sampler, Watched, elect
from storewise.metrics.schema import Sample
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.cluster import LOADED
from storewise.session.coordination.trial_job import write_trial_part
from storewise.workloads.alignments.stored_files import write_files
from storewise.workloads.contract import RefusedFile, SearchParams
from storewise.workloads.registry import workload as workload_named

#: A warning says so where more than this share of a target rate was missed.
MISSED = 0.05


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
        self.samples: list[Sample] = []
        self.warnings: list[str] = []
        self.refused: list[RefusedFile] = []
        self.notes: list[dict[str, Any]] = []
        self.searches: list[dict[str, Any]] = []
        self.measured: list[StepDone] = []
        self.progress = StepProgress(job.live, f"{job.phase}.{job.worker}", log)
        self.sampled_disk: str | None = None
        self.samples_host = False

    def run(self) -> None:
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
        threads = max(s.clients.most(trial.workers, trial.processes) for s in self.steps)
        self.log.info(
            "%s: worker %d of %d, %d processes with %d threads, engine %s",
            job.phase,
            job.worker,
            trial.workers,
            trial.processes,
            threads,
            trial.engine,
        )
        self.job = job = read_earlier(job, self.check)
        with ExitStack() as stack:
            pool = stack.enter_context(closing(Pool(job, threads, self.check, self.log)))
            # Its thread comes after the fork of the clients, which wait for their first step.
            census = self._census()
            if census is not None:
                stack.enter_context(closing(census))
            faults = StepFaults(
                job, self.embedded, lambda name: self._meet(name, pool), pool.check, self.log
            )
            for step in self.steps:
                if step.params.search is None:
                    self._step(pool, step, faults)
                else:
                    self._search(pool, step, step.params.search, faults)
            pool.tell(Word.END)
            pool.gather()
            pool.finish()
            if census is not None:
                # What clients have beside their stores while they work has gone.
                self._count(census)
        if self.spec.loads and job.worker == 0:
            (job.live / LOADED).touch()
        self._write(faults.crashes)

    def _count(self, census: Census) -> None:
        """Files and directories after the load; nothing where some lie on S3."""
        kept = inputs_kept(self.job)
        if kept is not None:
            taken = census.take(self.job.phase, kept)
            self.samples += [s._replace(worker=self.job.worker) for s in taken]
            self.warnings += [f"{self.job.phase}: {text}" for text in census.warnings]

    def _census(self) -> Census | None:
        """Of what this worker loads into stores in its own processes; of servers their nodes have
        one."""
        job, store = self.job, self.job.store
        if not (self.spec.loads and self.embedded and self.engine.flags.stores) or store is None:
            return None
        directories = self.engine.directories(job.trial.settings, store)
        return None if directories is None else Census(directories, self.log)

    def _search(self, pool: Pool, planned: Step, search: SearchParams, faults: StepFaults) -> None:
        """One planned step whose rate is searched for: as many steps as the search takes."""
        job = self.job
        first = len(self.measured)
        tried: list[Tried] = []
        while (rate := next_rate(search, tried)) is not None:
            step = replace(planned, params=planned.params.model_copy(update={"rate": rate}))
            measured = self._step(pool, step, faults)
            name = f"{job.phase}-{measured.step.number}"
            leave(job.live, name, job.worker, summary_of(measured, search))
            self._meet(f"{name}-summary", pool)
            tried.append(judge(search, rate, summaries(job.live, name, job.trial.workers)))
            self.log.info("step %d: %s", measured.step.number, tried[-1])
        result = answer(tried)
        self.searches.append(
            {
                **search.model_dump(mode="json"),
                "first_step": first,
                "tried": [asdict(one) for one in tried],
                **asdict(result),
            }
        )
        where = f"{job.phase}, steps {first} to {len(self.measured) - 1}"
        limit = f"percentile {search.percentile:g} of {search.limit_ms:g} ms"
        if result.rate is None:
            self.warnings.append(
                f"{where}: no rate that was tried stays within {limit}; search from a lower `low`"
            )
            return
        if not result.bounded:
            self.warnings.append(
                f"{where}: every rate that was tried stays within {limit}; the highest may lie "
                f"above `high` ({search.high:g}/s)"
            )
        if not result.verified:
            self.warnings.append(
                f"{where}: the highest rate was met once only; give the search more steps"
            )
        if job.worker == 0:
            number = first + max(n for n, one in enumerate(tried) if one.rate == result.rate)
            self.samples.append(Sample(job.phase, "highest_rate", result.rate, "1/s", number))

    def _step(self, pool: Pool, planned: Step, faults: StepFaults) -> StepDone:
        """One step; its number is its place among all steps, those of searches included."""
        job = self.job
        step = replace(planned, number=len(self.measured))
        if step.params.restart:
            pool.tell(Word.DISCONNECT)
            pool.gather()
            faults.restart(step)
        pool.counters.clear()
        self.progress.state("prepares", step.number)
        pool.tell(step)
        pool.gather()
        self.log.info("step %d: ready, waiting for the other workers", step.number)
        self.progress.state("waits", step.number)
        faults.begin(step)
        self._meet(f"{job.phase}-{step.number}", pool)
        sampler = Sampler(self._watched(pool), phase=job.phase, worker=job.worker, step=step.number)
        self.sampled_disk = sampler.disk
        started_at, zero = time.time(), time.perf_counter_ns()
        pool.tell(zero)
        sampler.start(zero)
        faults.started(step, started_at)
        self.progress.begin(pool.counters, step.number, sampler.latest)
        try:
            if self.spec.loads and not self.embedded:
                pool.gather(self.progress)
                self._meet(f"{job.phase}-loaded", pool)
                # The first process of the first worker ends the load.
                pool.tell(0 if job.worker == 0 else None)
            done: list[Done] = pool.gather(self.progress)
        finally:
            samples = sampler.stop()
        measured = StepDone(step, zero, started_at, done)
        self.measured.append(measured)
        self.samples += faults.end(measured)
        self.samples += [
            s._replace(warmup=s.second is not None and measured.is_warmup(s.second))
            for s in samples
        ]
        self.samples += step_samples(
            measured, job.phase, job.worker, job.trial.workers, loads=self.spec.loads
        )
        self.notes += [note for process in done for note in process.notes]
        self._judge(measured)
        for refused in (r for d in done for r in d.refused):
            self.log.warning("left out: %s", refused.reason)
            self.refused.append(refused)
        return measured

    def _meet(self, name: str, pool: Pool) -> None:
        parties = [str(worker) for worker in range(self.job.trial.workers)]
        Barrier(self.job.live, parties, name).wait(str(self.job.worker), pool.check)

    def _watched(self, pool: Pool) -> Watched:
        job = self.job
        store: tuple[Path, ...] = ()  # of servers: their nodes' own samplers look at it
        if self.embedded and job.store is not None:
            store = (job.store,)
        elif self.embedded and job.worker == 0:
            store = job.stores
        return Watched(
            clients=pool.pids,
            embedded=self.embedded,
            routers=job.routers,
            store=store,
            disk_path=job.store or next(iter(job.stores), job.live),
            host=self.samples_host,
        )

    def _judge(self, measured: StepDone) -> None:
        """Say what the step did; raise where no operation at all succeeded."""
        step = measured.step
        counters = [c for done in measured.done for c in done.recorded.counters.values()]
        operations = sum(c.operations for c in counters)
        # The end of a load is no answer of the store to what it was given.
        served = any(
            counter.operations
            for done in measured.done
            for (series, _), counter in done.recorded.counters.items()
            if series.operation != FINISH
        )
        errors = sum(c.errors for c in counters)
        numbers = (step.number, operations, sum(c.documents for c in counters), errors)
        self.log.info(
            "step %d: %d operations, %d documents, %d errors in %.2f s", *numbers, measured.duration
        )
        if errors:
            first = next(d.recorded.first_error for d in measured.done if d.recorded.first_error)
            text = f"{errors} of {operations + errors} operations failed, the first with: {first}"
            if not served and step.params.crash is None:
                raise StorewiseError(f"{self.job.phase}, step {step.number}: {text}")
            self._warn(step, text)
        paced = measured.paced
        if paced is not None and paced.missed > MISSED and step.params.search is None:
            self._warn(
                step,
                f"the target rate of {step.params.rate:g} operations/s was missed by "
                f"{100 * paced.missed:.0f} %: {paced.unserved} of {paced.intended} operations had "
                "not begun when the step ended",
            )

    def _warn(self, step: Step, text: str) -> None:
        self.log.warning("step %d: %s", step.number, text)
        self.warnings.append(f"{self.job.phase}, step {step.number}: {text}")

    def _write(self, crashes: list[dict[str, Any]]) -> None:
        job = self.job
        base = self.measured[0].started_at
        intervals = (i for measured in self.measured for i in step_intervals(measured, base))
        write_log(job.hdr_log, base, intervals)
        if self.spec.loads and job.files is not None:
            loaded = [file for step in self.measured for d in step.done for file in d.loaded]
            write_files(job.files, loaded)
        conditions = {**job.conditions, **self._conditions(), "crashes": crashes}
        write_trial_part(job.result, self.samples, job.trial, job.phase, **conditions)

    def _conditions(self) -> dict[str, Any]:
        job, trial = self.job, self.job.trial
        path = job.store or next(iter(job.stores), None)
        fstype = file_system(path) if path is not None and self.embedded else None
        warnings = [*job.conditions.get("warnings", ()), *self.warnings]
        flags = self.engine.flags
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
        return {
            "worker": job.worker,
            "steps": [
                {
                    **measured.step.params.model_dump(mode="json"),
                    "threads": measured.step.clients.most(trial.workers, trial.processes),
                    "clients": measured.step.clients.all(trial.workers, trial.processes),
                }
                for measured in self.measured
            ],
            "searches": self.searches,
            "engine": {
                "title": self.engine.title_of(job.versions.get("server", "")),
                "embedded": flags.embedded,
                "stores": flags.stores,
            },
            "versions": {**versions(self.engine, trial.settings), **job.versions},
            "store_file_system": fstype,
            "sampled_host": self.samples_host,
            "sampled_disk": self.sampled_disk or "all",
            "quarantined": [refused._asdict() for refused in self.refused],
            "notes": self.notes,
            "warnings": warnings,
        }


def versions(engine: Engine, settings: Mapping[str, Any]) -> dict[str, str]:
    """Versions of what took part in a measurement with these settings of the engine."""
    return {
        "storewise": version("storewise"),
        "python": platform.python_version(),
        "psutil": psutil.__version__,
        "hdrhistogram": version("hdrhistogram"),
        **{f"{engine.name}.{name}": text for name, text in engine.versions(settings).items()},
    }
