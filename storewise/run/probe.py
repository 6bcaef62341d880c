"""A few seconds of a study on this machine, so that an estimate rests on it and not on defaults.

A part of the study's own inputs goes through the code that its trials run: a load of one worker,
then reads by id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from storewise.driver.worker import run_worker
from storewise.driver.worker_job import WorkerJob
from storewise.engines.registry import ENGINES, engine
from storewise.errors import Aborted, StorewiseError
from storewise.estimate.work import Probe
from storewise.metrics.sampler import elect
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.shards import write_shards
from storewise.study.study import Study
from storewise.study.trial import Phase, Trial
from storewise.workloads.registry import workload

#: Bytes of input files, as they lie on disk, of which a load takes about five seconds.
_BYTES = 8_000_000
#: No single file is larger than this.
_MOST_BYTES = 64_000_000
_READ_SECONDS = 3.0
#: A load that takes longer is given up.
_SECONDS = 30.0


def probe(study: Study) -> Probe | None:
    """What this machine does in about ten seconds; None where the study's inputs do not allow it
    (they are searched first, are on S3, or one file alone is too large)."""
    files = _part(study)
    if not files or not workload(study.workload).reads_inputs:
        return None
    # Where all engines of a study have servers: the first one that has none.
    store = next(name for name in (*study.engines, *ENGINES) if _stores_here(name))
    phases = [
        Phase(name="write", params={}),
        Phase(name="read", params={"seconds": _READ_SECONDS}),
    ]
    trial = Trial(
        study=study.name,
        id=f"{store}-probe",
        seed=1,
        repeat=0,
        engine=store,
        workload=study.workload,
        factors={"engine": store},
        phases=phases,
    )
    with TemporaryDirectory(prefix=".probe-", dir=Path.cwd()) as directory:
        try:
            return Probe(store, _measured(trial, files, Path(directory)))
        except StorewiseError:
            return None  # the run itself says what is wrong with inputs, disk or store


def _measured(trial: Trial, files: list[str], directory: Path) -> dict[str, float]:
    manifest, shards, live = (directory / name for name in ("m.parquet", "s.parquet", "live"))
    build_manifest(files, manifest, on_bad_input="quarantine")
    write_shards(manifest, 1, shards)
    live.mkdir()
    elect(live, "canary")  # nobody looks at it
    rates = {}
    for phase, metric, rate in (
        ("write", "documents", "documents_per_s"),
        ("read", "operations", "operations_per_s"),
    ):
        loads = phase == "write"
        store, written = directory / "store", directory / "written.parquet"
        result = directory / f"{phase}.parquet"
        job = WorkerJob(
            trial=trial,
            phase=phase,
            worker=0,
            shards=shards,
            live=live,
            result=result,
            hdr_log=directory / f"{phase}.hlog",
            store=store if loads else None,
            stores=() if loads else (store,),
            written=() if loads else (written,),
            files=written if loads else None,
        )
        run_worker(job, _limit(_SECONDS), logging.getLogger("storewise.probe"))
        rates[rate] = _rate(result, metric)
    return {name: value for name, value in rates.items() if value > 0}


def _limit(seconds: float) -> Callable[[], None]:
    until = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > until:
            raise Aborted("the probe took too long")

    return check


def _stores_here(name: str) -> bool:
    flags = engine(name).flags
    return flags.embedded and flags.stores and not flags.rereads


def _part(study: Study) -> list[str]:
    """The smallest input files, up to `_BYTES`."""
    try:
        sizes = sorted(
            (Path(path).stat().st_size, path) for path in list_inputs(study.inputs.paths)
        )
    except (StorewiseError, OSError):
        return []
    return list(_up_to(sizes))


def _up_to(sizes: Iterable[tuple[int, str]]) -> Iterable[str]:
    total = 0
    for size, path in sizes:
        if size > _MOST_BYTES or total >= _BYTES:
            return
        total += size
        yield path


def _rate(result: Path, metric: str) -> float:
    """Of the one step in a result part, per second."""
    table, _ = read_part(result)
    rows = [row for row in table.to_pylist() if row["second"] is None]
    done = sum(row["value"] for row in rows if row["metric"] == metric and row["operation"])
    (duration,) = (
        row["value"] for row in rows if row["metric"] == "duration" and row["process"] is None
    )
    return float(done / duration)
