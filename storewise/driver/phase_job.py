"""A job of one phase: one worker in this process, or several, each on a host of the job.

The hosts are those that the scheduler gave the job: its own program (srun, pbsdsh) starts a process
on each. A job that has this host only forks one process for each of its workers.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from storewise.atomic import read_as, write_aside
from storewise.driver.worker import run_worker
from storewise.driver.worker_job import WorkerJob
from storewise.errors import StorewiseError
from storewise.layout import TRIALS
from storewise.metrics.memory_kills import MemoryKills
from storewise.processes import clean_own_environment, dies_with_parent, library_environment
from storewise.schedulers.slurm import number_of_hosts
from storewise.session.coordination.ending import how_it_ended
from storewise.session.coordination.liveness import Abort, abort
from storewise.session.coordination.trial_job import TrialJob, trial_job
from storewise.session.jobs.external import external_store, is_external
from storewise.session.jobs.sidecar import phase_cluster
from storewise.study.shares import Share
from storewise.study.trial import Trial

#: Files through which a job tells the processes on its hosts what to do, in the live directory.
JOBS = "jobs"
#: Seconds for which what other hosts wrote may not be seen here (NFS caches attributes).
VISIBLE_WITHIN = 120.0
#: Seconds between two looks at the processes of the workers.
LOOK_EVERY = 0.2
#: Where a process learns which of the job's hosts it is on, by launcher.
_PLACES = ("SLURM_PROCID", "PBS_NODENUM")
#: A client's error may only be what a server's end looks like from outside; its node says more.
_DEFER = 3.0


@dataclass(frozen=True, slots=True)
class PhaseJob:
    """What the workflow asks of a job. `first` names it; paths are as the workflow has them."""

    trial: Trial
    phase: str
    first: int
    per_job: int
    results: Path
    session: Path
    logs: Path
    """Directory of the workers' logs."""
    served: bool
    """The trial's store is a cluster of servers, which is formed."""
    loads: bool
    shards: Path | None
    inputs: tuple[Path, ...] = ()
    """Files that must not go away while it runs."""

    @property
    def share(self) -> Share:
        return Share.of(self.trial, self.results / TRIALS / self.trial.id, self.per_job)

    @property
    def earlier(self) -> list[str]:
        """The phases before this one."""
        names = [phase.name for phase in self.trial.phases]
        return names[: names.index(self.phase)]


def run_phase_job(job: PhaseJob) -> None:
    """Run the job's workers; ends the process with status 1 and one message where one fails."""
    if job.per_job == 1:
        run_one(job, job.first)
    else:
        _run_together(job)


def run_one(job: PhaseJob, worker: int) -> None:
    """One worker of the phase, in this process."""
    share, trial = job.share, job.trial
    written = () if job.loads else share.all_written()
    stores = () if job.loads else share.stores()
    needs = (*job.inputs, *share.results(*job.earlier), *written, *stores)
    name = f"{job.phase}.{worker}"
    log_file = job.logs / f"{name}.log"
    defer = _DEFER if job.served else 0.0
    with (
        trial_job(job.results, job.session, name, log_file, needs=needs, defer=defer) as frame,
        ExitStack() as stack,
    ):
        await_files(needs, frame.check)
        store = share.store(worker) if job.loads else None
        conditions: dict[str, Any] = {"run": frame.session.run, "opened": frame.session.opened}
        served: dict[str, Any] = {}
        check = frame.check
        if job.served:
            servers = stack.enter_context(
                phase_cluster(
                    trial,
                    log_file.parent,
                    frame,
                    phase=job.phase,
                    worker=worker,
                    workers=trial.workers,
                )
            )
            check = servers.check
            served = {
                "cluster": servers.cluster,
                "routers": servers.pids,
                "versions": servers.formed.server_versions(),
            }
            conditions["beside"] = servers.beside
            conditions["warnings"] = list(servers.formed.warnings)
        outside = is_external(trial)
        if outside:
            database = stack.enter_context(
                external_store(
                    trial,
                    frame.session.run,
                    job.results,
                    frame.log,
                    creates=job.loads and worker == 0,
                )
            )
            served = {"cluster": database.cluster, "versions": database.versions}
        if store is not None and served:
            store.mkdir(parents=True)  # the servers, or the database, have the data
        run_worker(
            WorkerJob(
                trial=trial,
                phase=job.phase,
                worker=worker,
                shards=job.shards,
                before=share.results(*job.earlier),
                written=written,
                live=frame.live,
                store=store,
                stores=stores,
                result=share.result(job.phase, worker),
                hdr_log=share.hdr_log(job.phase, worker),
                files=share.written(worker) if job.loads else None,
                conditions=conditions,
                **served,
            ),
            check,
            frame.log,
        )


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
        sleep(LOOK_EVERY)


def _first_missing(paths: Sequence[Path]) -> Path | None:
    """The first that is not there. Each directory is listed once: a phase of a thousand workers
    leaves thousands of files, and each worker of the next looks for all of them."""
    names: dict[Path, frozenset[str]] = {}
    for path in paths:
        if path.parent not in names:
            try:
                names[path.parent] = frozenset(os.listdir(path.parent))  # noqa: PTH208
            except FileNotFoundError:
                names[path.parent] = frozenset()
        if path.name not in names[path.parent]:
            return path
    return None


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
    running: dict[int, int] = {}
    try:
        for worker in members:
            pid = os.fork()
            if pid == 0:
                _child(job, worker, tie)
            running[pid] = worker
        while running:
            frame.check()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(LOOK_EVERY)
                continue
            worker = running.pop(pid)
            if code := os.waitstatus_to_exitcode(status):
                how = f"(pid {pid}) {how_it_ended(code, before, pid)}"
                raise _worker_failed(job, worker, how, frame)
    except BaseException as error:
        frame.tell(error)  # before the others end because of it, and say so first
        raise
    finally:
        # They see the trial's end within half a second; what does not is not waited for longer.
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 30.0
        while running and time.monotonic() < until:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            running.pop(pid, None)
            if pid == 0:
                time.sleep(LOOK_EVERY)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _child(job: PhaseJob, worker: int, tie: Callable[[], None]) -> None:
    """The whole life of a forked worker; it never returns into the parent's frames."""
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        tie()
        run_one(job, worker)
        status = 0
    except SystemExit as end:
        sys.stderr.write(f"{end.code}\n" if isinstance(end.code, str) else "")
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - told, and the process ends with status 1
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _on_hosts(job: PhaseJob, workers: int, hosts: int, frame: TrialJob) -> None:
    if hosts < workers:
        raise StorewiseError(
            f"{job.phase}.{job.first}: the job has {hosts} hosts for its {workers} workers; give "
            "it as many (resource `nodes` of rules load and phase), or set workers_per_job: 1"
        )
    place = frame.live / JOBS / f"{job.phase}.{job.first}"
    place.parent.mkdir(exist_ok=True)
    order, program = (place.with_name(f"{place.name}{end}") for end in (".json", ".sh"))
    write_aside(order, as_order(job))
    # What the launcher hands on of an environment differs: pbsdsh nothing at all.
    keep = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONUTF8", "HOME")
    mine = library_environment()
    lines = [
        f"export {key}={shlex.quote(value)}"
        for key, value in mine.items()
        if key in keep or key.startswith("STOREWISE_")
    ]
    command = [sys.executable, "-m", "storewise.driver.phase_job", str(order.absolute())]
    # Whoever is killed leaves no word: the shell around it says how it ended, and where.
    place_of = "".join(f"${{{name}:-}}" for name in _PLACES)
    end = (
        f"status=$?\necho $status $(hostname) > {shlex.quote(f'{place.absolute()}.end.')}{place_of}"
    )
    text = ["#!/bin/sh", f"cd {shlex.quote(str(Path.cwd()))}", *lines, shlex.join(command), end]
    program.write_text("\n".join([*text, "exit $status", ""]), encoding="utf-8")
    program.chmod(0o700)
    launcher = launch_command(os.environ, workers, program.absolute())
    frame.log.info("%s", shlex.join(launcher))
    process = subprocess.Popen(
        launcher, stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent(signal.SIGTERM)
    )
    try:
        while (status := process.poll()) is None:
            frame.check()
            # The launcher waits for all: the others wait for the one that has failed.
            _look_for_failed(job, place, frame)
            time.sleep(LOOK_EVERY)
        _look_for_failed(job, place, frame)
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
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _look_for_failed(job: PhaseJob, place: Path, frame: TrialJob) -> None:
    """Raise for the first worker on another host that has failed."""
    ended = set(os.listdir(place.parent))  # noqa: PTH208 - makes an NFS client ask its server
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


def as_order(job: PhaseJob) -> str:
    """The job as JSON, which `main` reads on its hosts."""
    plain = {**asdict(job), "trial": job.trial.model_dump(mode="json")}
    return json.dumps(plain, default=str) + "\n"


def main(arguments: Sequence[str]) -> None:
    """``ORDER``: on each host of a job, its worker by the host's number among them."""
    job = read_as(PhaseJob, Path(arguments[0]))
    clean_own_environment(job.trial)
    members = job.share.members(job.first)
    place = next((int(os.environ[key]) for key in _PLACES if key in os.environ), None)
    if place is None:
        sys.exit(f"storewise: none of {', '.join(_PLACES)} says which host of the job this is")
    if place < len(members):
        run_one(job, members[place])


if __name__ == "__main__":
    main(sys.argv[1:])
