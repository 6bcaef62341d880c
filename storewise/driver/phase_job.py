"""A job of one phase: one worker in this process, or several workers.

Several workers are processes of this host; or, where the scheduler gave the job several hosts, its
own program (srun, pbsdsh) starts one worker on each.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from storewise.atomic import listed, read_as, write_aside
from storewise.driver.verify import PHASE as VERIFICATION
from storewise.driver.verify import run_verify
from storewise.driver.worker import run_worker
from storewise.driver.worker_job import ClientJob, WorkerJob
from storewise.errors import StorewiseError
from storewise.layout import TRIALS, VERIFIED
from storewise.metrics.memory_kills import MemoryKills
from storewise.processes import (
    ENDING,
    clean_own_environment,
    dies_with_parent,
    end_processes,
    library_environment,
)
from storewise.schedulers.slurm import number_of_hosts
from storewise.session.coordination.ending import how_it_ended
from storewise.session.coordination.liveness import FINISHED, Abort, abort
from storewise.session.coordination.trial_job import TrialJob, trial_job
from storewise.session.jobs.external import external_store, is_external
from storewise.session.jobs.sidecar import phase_cluster
from storewise.study.shares import Share
from storewise.study.trial import Trial

#: Directory below the live directory, of the files that tell the job's hosts what to run.
JOBS = "jobs"
#: Seconds until a file that another host wrote must be visible here (NFS caches attributes).
VISIBLE_WITHIN = 120.0
#: Seconds between two polls of the workers' processes.
POLL_SECONDS = 0.2
#: Seconds that workers have to end when their job ends.
END_SECONDS = 30.0
#: Variables in which the launcher (srun, pbsdsh) tells a process the number of its host.
_HOST_NUMBERS = ("SLURM_PROCID", "PBS_NODENUM")
#: Variables that workers on other hosts get, with all STOREWISE_ ones: pbsdsh passes none on.
_PASSED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONUTF8", "HOME")
#: If a server died, its node reports the cause: seconds to wait for that before reporting a
#: client's error.
_DEFER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PhaseJob:
    """A job of the workflow: the workers from `first` on, at most `per_job` of them."""

    trial: Trial
    phase: str
    first: int
    per_job: int
    results: Path
    session: Path
    logs: Path
    """Directory of the workers' logs."""
    served: bool
    """The trial's store is a cluster of servers."""
    loads: bool
    shards: Path | None
    inputs: tuple[Path, ...] = ()
    """The job ends when one of these is removed."""

    @property
    def share(self) -> Share:
        return Share.of(self.trial, self.results / TRIALS / self.trial.id, self.per_job)

    @property
    def earlier(self) -> list[str]:
        """The phases before this one."""
        names = [phase.name for phase in self.trial.phases]
        return names[: names.index(self.phase)] if self.phase in names else names


def run_phase_job(job: PhaseJob) -> None:
    """Run the job's workers; ends the process with status 1 and one message where one fails."""
    if job.per_job == 1:
        run_one(job, job.first)
    else:
        _run_together(job)


@dataclass(frozen=True, slots=True)
class Access:
    """A worker's access to the store of its trial."""

    frame: TrialJob
    check: Callable[[], None]
    """Raises Aborted when the trial is to end, or a server that this job has started has ended."""
    server: dict[str, Any]
    """Fields of `ClientJob` for a store with servers; else empty."""
    conditions: dict[str, Any]


@contextmanager
def _access(
    job: PhaseJob, name: str, worker: int, workers: int, needs: Sequence[Path]
) -> Iterator[Access]:
    """Wait for the files in `needs`, then yield the access of the worker's job `name`."""
    trial, log_file = job.trial, job.logs / f"{name}.log"
    defer = _DEFER_SECONDS if job.served else 0.0
    with (
        trial_job(job.results, job.session, name, log_file, needs=needs, defer=defer) as frame,
        ExitStack() as stack,
    ):
        await_files(needs, frame.check)
        run = frame.session.run
        access = Access(frame, frame.check, {}, {"run": run, "opened": frame.session.opened})
        if job.served:
            servers = stack.enter_context(
                phase_cluster(
                    trial, job.logs, frame, phase=job.phase, worker=worker, workers=workers
                )
            )
            access.server["versions"] = servers.formed.server_versions()
            access.server["cluster"] = servers.cluster
            access = replace(access, check=servers.check)
            if job.phase != VERIFICATION:
                access.server["routers"] = servers.pids
                access.conditions["beside"] = servers.beside
                access.conditions["warnings"] = list(servers.formed.warnings)
        elif is_external(trial):
            creates, ends = job.loads and worker == 0, job.phase == VERIFICATION
            database = stack.enter_context(
                external_store(trial, run, job.results, frame.log, creates=creates, ends=ends)
            )
            access.server.update(cluster=database.cluster, versions=database.versions)
        yield access


def run_one(job: PhaseJob, worker: int) -> None:
    """One worker of the phase, in this process."""
    share, trial = job.share, job.trial
    written = () if job.loads else share.all_written()
    stores = () if job.loads else share.stores()
    before = share.results(*job.earlier)
    needs = (*job.inputs, *before, *written, *stores)
    with _access(job, f"{job.phase}.{worker}", worker, trial.workers, needs) as access:
        store = share.store(worker) if job.loads else None
        if store is not None and access.server:
            store.mkdir(parents=True)  # Snakemake expects it; the servers have the data
        run_worker(
            WorkerJob(
                trial=trial,
                phase=job.phase,
                worker=worker,
                shards=job.shards,
                before=before,
                written=written,
                live=access.frame.live,
                store=store,
                stores=stores,
                result=share.result(job.phase, worker),
                hdr_log=share.hdr_log(job.phase, worker),
                files=share.written(worker) if job.loads else None,
                conditions=access.conditions,
                **access.server,
            ),
            access.check,
            access.frame.log,
        )


def run_verification(job: PhaseJob) -> None:
    """Compare what a trial stored with what its inputs hold: the last job that uses its store."""
    share = job.share
    before, written, stores = share.results(*job.earlier), share.all_written(), share.stores()
    needs = (*job.inputs, *before, *written, *stores)
    with _access(job, VERIFICATION, 0, 1, needs) as access:
        run_verify(
            ClientJob(
                trial=job.trial,
                shards=job.shards,
                before=before,
                stores=stores,
                written=written,
                result=share.directory / VERIFIED,
                conditions=access.conditions,
                **access.server,
            ),
            access.check,
            access.frame.log,
        )
        if not job.served:
            (access.frame.live / FINISHED).touch()  # otherwise closing its session does


def await_files(
    paths: Sequence[Path],
    check: Callable[[], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when this host sees the files of the phases before, which other hosts have written.

    StorewiseError that names the first one that is not seen in time.
    """
    until = clock() + VISIBLE_WITHIN
    while missing := _first_missing(paths):
        check()
        if clock() > until:
            raise StorewiseError(
                f"{missing}: an earlier phase has written it, and this host does not see it "
                f"after {VISIBLE_WITHIN:.0f} s; is it on a file system that all hosts share?"
            )
        sleep(POLL_SECONDS)


def _first_missing(paths: Sequence[Path]) -> Path | None:
    """The first that is not there. Each directory is listed once: a phase of a thousand workers
    leaves thousands of files, and each worker of the next one waits for all of them."""
    names = {directory: listed(directory) for directory in {path.parent for path in paths}}
    return next((path for path in paths if path.name not in names[path.parent]), None)


def _run_together(job: PhaseJob) -> None:
    share, name = job.share, f"{job.phase}.{job.first}.workers"
    members = share.members(job.first)
    log_file = job.logs / f"{name}.log"
    with trial_job(job.results, job.session, name, log_file, needs=job.inputs) as frame:
        count = host_count(os.environ)
        frame.log.info("%d workers on %d hosts", len(members), count)
        if count > 1:
            _on_hosts(job, len(members), count, frame)
        else:
            _on_this_host(job, members, frame)
        files = [share.result(job.phase, k) for k in members]
        files += [share.hdr_log(job.phase, k) for k in members]
        files += [share.written(k) for k in members] if job.loads else []
        await_files(files, frame.check)
        names = "".join(f"{path.name}\n" for path in files)
        write_aside(share.index(job.phase, job.first), names)


def host_count(environment: Mapping[str, str]) -> int:
    """The number of hosts of the cluster job that this process runs in; 1 outside a job.

    PBS: the distinct lines of ``PBS_NODEFILE``. Slurm: squeue's answer, because Snakemake's
    executor passes only ``SLURM_JOB_ID`` on. StorewiseError if the scheduler gives no number:
    workers that share a host would be recorded as if each had its own.
    """
    if job := environment.get("SLURM_JOB_ID"):
        return number_of_hosts(job)
    if listing := environment.get("PBS_NODEFILE"):
        if hosts := set(Path(listing).read_text().split()):
            return len(hosts)
        raise StorewiseError(f"PBS_NODEFILE {listing} lists no host")
    return 1


def _on_this_host(job: PhaseJob, members: Sequence[int], frame: TrialJob) -> None:
    """Run the workers as forked processes: they share the modules that this one has imported."""
    # The first array imports pandas (0.4 s): do that once, before the fork.
    pa.array([])
    before = MemoryKills.now()
    tie = dies_with_parent(signal.SIGTERM)
    context = get_context("fork")
    running: dict[int, ForkProcess] = {}
    try:
        for worker in members:
            running[worker] = context.Process(target=_forked, args=(job, worker, tie))
            running[worker].start()
        while running:
            frame.check()
            wait([process.sentinel for process in running.values()], POLL_SECONDS)
            for worker in [w for w, process in running.items() if process.exitcode is not None]:
                process = running.pop(worker)
                if code := process.exitcode:
                    how = f"(pid {process.pid}) {how_it_ended(code, before, process.pid)}"
                    raise _worker_failed(job, worker, how, frame)
    except BaseException as error:
        frame.tell(error)  # before the others end because of it, and say so first
        raise
    finally:
        for process in running.values():
            process.terminate()
        end_processes(running.values(), END_SECONDS)


def _forked(job: PhaseJob, worker: int, tie: Callable[[], None]) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    tie()
    run_one(job, worker)


def _on_hosts(job: PhaseJob, workers: int, hosts: int, frame: TrialJob) -> None:
    if hosts < workers:
        raise StorewiseError(
            f"{job.phase}.{job.first}: the job has {hosts} hosts for its {workers} workers; give "
            "it as many (resource `nodes` of rules load and phase), or set workers_per_job: 1"
        )
    place = frame.live / JOBS / f"{job.phase}.{job.first}"
    launcher = launch_command(os.environ, workers, _write_program(job, place))
    frame.log.info("%s", shlex.join(launcher))
    process = subprocess.Popen(
        launcher, stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent(signal.SIGTERM)
    )
    try:
        while (status := process.poll()) is None:
            frame.check()
            # The launcher waits for all: the others wait for the one that has failed.
            _raise_for_failed(job, place, frame)
            time.sleep(POLL_SECONDS)
        _raise_for_failed(job, place, frame)
        if status:
            raise StorewiseError(
                f"{Path(launcher[0]).name} ended with status {status}; the logs of the workers say "
                "more"
            )
    except BaseException as error:
        frame.tell(error)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _write_program(job: PhaseJob, place: Path) -> Path:
    """Write the job as JSON, and the shell script that runs its worker on each host.

    A worker that is killed leaves no message: the shell writes its status and the host's name.
    """
    place.parent.mkdir(exist_ok=True)
    order, program = (place.with_name(f"{place.name}{end}") for end in (".json", ".sh"))
    plain = {**asdict(job), "trial": job.trial.model_dump(mode="json")}
    write_aside(order, json.dumps(plain, default=str) + "\n")
    exports = [
        f"export {key}={shlex.quote(value)}"
        for key, value in library_environment().items()
        if key in _PASSED or key.startswith("STOREWISE_")
    ]
    command = [sys.executable, "-m", "storewise.driver.phase_job", str(order.absolute())]
    number = "".join(f"${{{name}:-}}" for name in _HOST_NUMBERS)
    lines = [
        "#!/bin/sh",
        f"cd {shlex.quote(str(Path.cwd()))}",
        *exports,
        shlex.join(command),
        "status=$?",
        f"echo $status $(hostname) > {shlex.quote(f'{place.absolute()}.end.')}{number}",
        "exit $status",
    ]
    program.write_text("\n".join([*lines, ""]), encoding="utf-8")
    program.chmod(0o700)
    return program.absolute()


def _raise_for_failed(job: PhaseJob, place: Path, frame: TrialJob) -> None:
    """Raise for the first worker on another host that has failed."""
    ended = listed(place.parent)
    for k, worker in enumerate(job.share.members(job.first)):
        name = f"{place.name}.end.{k}"
        text = (place.parent / name).read_text() if name in ended else ""
        status, _, host = text.strip().partition(" ")
        if host and (number := int(status)):
            # A shell's 128 and the number of a signal.
            killed = signal.Signals(number - 128).name if number > 128 else ""
            how = f"was ended by {killed}" if killed else f"ended with status {number}"
            raise _worker_failed(job, worker, f"on host {host} {how}", frame)


def _worker_failed(job: PhaseJob, worker: int, how: str, frame: TrialJob) -> StorewiseError:
    """The trial ends with this as its reason, unless the worker itself has given one."""
    name = f"{job.phase}.{worker}"
    log = str(job.logs / f"{name}.log")
    abort(frame.live, Abort(f"{name} {how}", failure=True, log=log))
    return StorewiseError(f"{name} {how}")


def launch_command(environment: Mapping[str, str], workers: int, program: Path) -> list[str]:
    """The scheduler's own command that runs a program once on each of the job's hosts.

    srun(1) ``--ntasks-per-node``; pbsdsh(1B) runs one on each chunk. StorewiseError where there is
    none of them.
    """
    if "SLURM_JOB_ID" in environment and (srun := shutil.which("srun")):
        where = [f"--nodes={workers}", f"--ntasks={workers}", "--ntasks-per-node=1"]
        # Without --overlap it would wait for what the job's own first step holds.
        return [srun, "--overlap", "--kill-on-bad-exit=0", *where, str(program)]
    if "PBS_JOBID" in environment and (pbsdsh := shutil.which("pbsdsh")):
        return [pbsdsh, "--", str(program)]
    raise StorewiseError(
        "the job has several hosts and neither srun nor pbsdsh is on PATH to reach them"
    )


def main(arguments: Sequence[str]) -> None:
    """Run the worker of this host; the argument is the file of the job."""
    job = read_as(PhaseJob, Path(arguments[0]))
    clean_own_environment(job.trial)
    members = job.share.members(job.first)
    number = next((int(os.environ[key]) for key in _HOST_NUMBERS if key in os.environ), None)
    if number is None:
        sys.exit(
            f"storewise: none of {', '.join(_HOST_NUMBERS)} says which host of the job this is"
        )
    if number < len(members):
        run_one(job, members[number])


if __name__ == "__main__":
    main(sys.argv[1:])
