"""Is everything in the store that was acknowledged, and is it what was parsed?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storewise.driver.embedded_stores import reading_cluster
from storewise.driver.worker import versions
from storewise.driver.worker_job import load_params, must_succeed, notes_of
from storewise.engines.contract.engine import Cluster, Engine
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError
from storewise.metrics.host import facts, host_name
from storewise.metrics.pack import write_pack
from storewise.metrics.schema import Sample, write_part
from storewise.study.trial import Trial
from storewise.workloads.contract import Checked, Look
from storewise.workloads.registry import workload as workload_named

PHASE = "verify"


@dataclass(frozen=True)
class VerifyJob:
    """The verification of one trial."""

    trial: Trial
    written: tuple[Path, ...]
    """The lists of the files that the loading workers stored."""
    shards: Path | None
    """The Parquet file with one row per input file and its shard, where the workload has inputs."""
    result: Path
    stores: tuple[Path, ...] = ()
    """Store directories of the loading workers, in worker order (embedded engines)."""
    before: tuple[Path, ...] = ()
    """Result parts of all workers of all phases."""
    cluster: Cluster | None = None
    """What a client of a server engine connects to."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the servers."""
    conditions: Mapping[str, Any] = field(default_factory=dict)


def run_verify(job: VerifyJob, check: Callable[[], None], log: logging.Logger) -> None:
    """Compare the store with its inputs and write the result part; then pack the workers' parts.

    What is compared is the workload's (`Workload.verify`); every input file must be among those
    that the load stored, unless it was quarantined.

    For a durable engine at a durable level a difference raises EngineError with kind, counts, and
    the first wrong id and field; otherwise ``lost_documents`` and ``wrong_documents`` record it.
    Engines that keep nothing are skipped, which the part's conditions say. `check` raises Aborted
    when the trial is to end.
    """
    trial = job.trial
    engine, workload = engine_named(trial.engine), workload_named(trial.workload)
    load = workload.phases[trial.load.name]
    left_out = workload.left_out(job.shards, job.written)
    if left_out:
        text = f"{len(left_out)} input files were not stored, the first: {left_out[0]}"
        if trial.on_bad_input == "fail":
            raise EngineError(text)
        log.warning("%s", text)
    samples: list[Sample] = []
    found: list[Checked] = []
    if engine.flags.stores:
        cluster = job.cluster or reading_cluster(
            trial, job.stores, job.shards, job.written, notes_of(job.before)
        )
        client = engine.connect(cluster, "read")
        try:
            found = workload.verify(
                Look(
                    engine=engine,
                    client=client,
                    load=load_params(trial, load),
                    kinds=trial.kinds(),
                    seed=trial.seed,
                    sample=trial.verify,
                    written=job.written,
                    notes=notes_of(job.before),
                    check=check,
                    study_fields=trial.study_fields,
                )
            )
        finally:
            client.close()
    for result in found:
        log.info(
            "%s: %d documents expected, %d counted, %d checked, %d lost, %d wrong",
            result.name,
            result.expected,
            result.counted,
            result.checked,
            result.lost,
            result.wrong,
        )
        samples += [
            Sample(PHASE, metric, value, "1", operation=result.name)
            for metric, value in (
                ("expected_documents", result.expected),
                ("counted_documents", result.counted),
                ("checked_documents", result.checked),
                ("lost_documents", result.lost),
                ("wrong_documents", result.wrong),
            )
        ]
    differences = [_words(result) for result in found if result.differs()]
    if differences and must_succeed(engine, trial):
        raise EngineError(
            f"{engine.title} acknowledged documents and does not have them as they were: "
            + "; ".join(differences)
        )
    write_part(
        job.result,
        samples,
        trial=trial.id,
        repeat=trial.repeat,
        host=host_name(),
        factors=trial.factors,
        conditions={
            **job.conditions,
            "trial": trial.model_dump(mode="json"),
            "phase": PHASE,
            "verification": _manner(engine, trial),
            "left_out": left_out,
            "seed": trial.seed,
            "versions": {**versions(engine), **job.versions},
            "host": facts(),
            "warnings": [*job.conditions.get("warnings", ()), *differences],
        },
    )
    if job.before and write_pack(job.before) is None:
        log.info("the trial's parts could not be packed; the analysis reads them one by one")


def _manner(engine: Engine, trial: Trial) -> str:
    if not engine.flags.stores:
        return "skipped: the engine keeps nothing"
    return "required" if must_succeed(engine, trial) else "measured"


def _words(found: Checked) -> str:
    text = f"{found.name}: {found.expected} documents expected, {found.counted} counted"
    if found.lost or found.wrong:
        text += f", {found.lost} lost and {found.wrong} wrong of {found.checked} checked"
    return text + (f", first: {found.first}" if found.first else "")
