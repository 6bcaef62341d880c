"""Measure this machine for a few seconds, so that an estimate need not use default rates.

One worker loads some of the study's inputs and reads documents by id, with the code of trials.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
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

#: Size of the input files that are loaded: about five seconds of loading.
_LOAD_BYTES = 8_000_000
#: Larger input files are not loaded.
_MAX_FILE_BYTES = 64_000_000
_READ_SECONDS = 3.0
#: A phase that takes longer is aborted.
_MAX_PHASE_SECONDS = 30.0


def probe(study: Study) -> Probe | None:
    """Rates of this machine, measured in about ten seconds; None where the study's inputs do not
    allow it (they are made by searches, are on S3, or the smallest file is too large)."""
    files = _smallest_inputs(study)
    if not files or not workload(study.workload).reads_inputs:
        return None
    # The study's first embedded store, else the first one of all engines.
    store = next(name for name in (*study.engines, *ENGINES) if _is_embedded_store(name))
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
            form = study.inputs.input_format
            return Probe(store, _measured(trial, files, form, Path(directory)))
        except StorewiseError:
            return None  # the run itself says what is wrong with inputs, disk or store


def _measured(
    trial: Trial, files: list[str], input_format: str, directory: Path
) -> dict[str, float]:
    manifest, shards, live = (directory / name for name in ("m.parquet", "s.parquet", "live"))
    build_manifest(files, manifest, input_format=input_format, on_bad_input="quarantine")
    write_shards(manifest, 1, shards)
    live.mkdir()
    elect(live, "canary")  # the probe needs no test of the host
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
        run_worker(job, _time_limit(_MAX_PHASE_SECONDS), logging.getLogger("storewise.probe"))
        rates[rate] = _rate(result, metric)
    return {name: value for name, value in rates.items() if value > 0}


def _time_limit(seconds: float) -> Callable[[], None]:
    until = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > until:
            raise Aborted("the probe took too long")

    return check


def _is_embedded_store(name: str) -> bool:
    flags = engine(name).flags
    return flags.embedded and flags.stores and not flags.rereads


def _smallest_inputs(study: Study) -> list[str]:
    """The smallest input files, up to `_LOAD_BYTES`; none where they cannot be listed."""
    try:
        sizes = sorted(
            (Path(path).stat().st_size, path) for path in list_inputs(study.inputs.paths)
        )
    except (StorewiseError, OSError):
        return []
    chosen, total = [], 0
    for size, path in sizes:
        if size > _MAX_FILE_BYTES or total >= _LOAD_BYTES:
            break
        total += size
        chosen.append(path)
    return chosen


def _rate(result: Path, metric: str) -> float:
    """The sum of a metric in a result part of one step, per second."""
    table, _ = read_part(result)
    rows = [row for row in table.to_pylist() if row["second"] is None]
    done = sum(row["value"] for row in rows if row["metric"] == metric and row["operation"])
    (duration,) = (
        row["value"] for row in rows if row["metric"] == "duration" and row["process"] is None
    )
    return float(done / duration)
