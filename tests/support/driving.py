"""A small trial on real inputs, whose worker jobs tests start as processes of their own.

Run as a program it is one such worker job: its arguments are the trial as JSON, the trial's
directory, the phase and the worker.
"""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.compute as pc

from storewise.driver.verify import run_verify
from storewise.driver.worker import WorkerJob, run_worker
from storewise.driver.worker_job import ClientJob
from storewise.errors import Aborted, StorewiseError
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.shards import write_shards
from storewise.study.trial import Trial

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.paths import SAMPLE


def make_inputs(directory, shards, files=6):
    """A manifest and shards of some files of the bundled sample."""
    paths = [str(path) for path in sorted(SAMPLE.glob("*.m10.*"))[:files]]
    build_manifest(paths, directory / "manifest.parquet")
    write_shards(directory / "manifest.parquet", shards, directory / "shards.parquet")
    (directory / "live").mkdir()


def trial(engine, phases=("write", {"name": "read", "params": {"operations": 200}}), **changes):
    """A trial of this engine; phases are names or dicts."""
    values = {"study": "test", "id": f"{engine}-test", "seed": 11, "repeat": 0, **changes}
    return Trial(
        engine=engine,
        workload="alignments",
        factors={"engine": engine},
        phases=[{"name": p} if isinstance(p, str) else p for p in phases],
        **values,
    )


def job(trial, directory, phase, worker=0):
    """The job of one worker, its files laid out as the workflow does."""
    loads = phase == "write"
    workers = range(trial.workers)
    return WorkerJob(
        trial=trial,
        phase=phase,
        worker=worker,
        shards=directory / "shards.parquet",
        live=directory / "live",
        result=directory / f"{phase}.{worker}.parquet",
        hdr_log=directory / f"{phase}.{worker}.hlog",
        store=directory / f"store.{worker}" if loads else None,
        stores=() if loads else tuple(directory / f"store.{k}" for k in workers),
        written=() if loads else tuple(directory / f"written.{k}.parquet" for k in workers),
        files=directory / f"written.{worker}.parquet" if loads else None,
        conditions={"study": trial.study},
    )


def check_of(directory):
    """A check that sees the file ``live/abort``."""

    def check():
        path = directory / "live" / "abort"
        if path.exists():
            raise Aborted(path.read_text())

    return check


def verify(trial, directory, before=()):
    """Verify the trial's stores, after phases that left these parts."""
    workers = range(trial.workers)
    run_verify(
        ClientJob(
            trial=trial,
            written=tuple(directory / f"written.{k}.parquet" for k in workers),
            shards=directory / "shards.parquet",
            stores=tuple(directory / f"store.{k}" for k in workers),
            result=directory / "verify.parquet",
            before=tuple(before),
        ),
        check_of(directory),
        logging.getLogger("verify"),
    )


def run_here(trial, directory, phase, worker=0):
    """Run a worker job in this process."""
    logger = logging.getLogger("worker")
    run_worker(job(trial, directory, phase, worker), check_of(directory), logger)


def start(trial, directory, phase, worker=0):
    """Start a worker job as a process; its messages are in ``<phase>.<worker>.log``."""
    log = (directory / f"{phase}.{worker}.log").open("wb")
    with log:
        return subprocess.Popen(
            [sys.executable, __file__, trial.model_dump_json(), directory, phase, str(worker)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def wait_for(condition, seconds=30.0):
    """Wait until `condition()` is true and return it."""
    from support.waiting import wait_until

    return wait_until(condition, seconds, "what the test waits for", pause=0.02)


def children(process, count):
    """The client processes of a worker job, as soon as there are `count`."""
    parent = psutil.Process(process.pid)
    return wait_for(lambda: (c := parent.children()) and len(c) == count and c)


def all_gone(processes):
    """Whether all of these processes end; the limit only tells a hang."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def rows(path, **wanted):
    """Rows of a result part with these column values, as dicts."""
    table, _ = read_part(path)
    for name, value in wanted.items():
        column = table[name].cast("string") if isinstance(value, str) else table[name]
        table = table.filter(pc.is_null(column) if value is None else pc.equal(column, value))
    return table.to_pylist()


def total(path, metric, **wanted):
    """Sum of a metric over such rows."""
    return sum(row["value"] for row in rows(path, metric=metric, **wanted))


def main():
    values, directory, phase, worker = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        run_here(Trial(**json.loads(values)), Path(directory), phase, int(worker))
    except StorewiseError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
