"""Verification of a trial's store: acknowledged documents must be present and correct."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

from storewise.driver.embedded_stores import reading_cluster
from storewise.driver.worker_job import ClientJob, load_params, must_succeed, notes_of, versions
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError
from storewise.metrics.pack import write_pack
from storewise.metrics.schema import Sample
from storewise.session.coordination.trial_part import write_trial_part
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.registry import workload as workload_named

PHASE = "verify"


def run_verify(job: ClientJob, check: Callable[[], None], log: logging.Logger) -> None:
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
    must_match = must_succeed(engine, trial)
    left_out = workload.left_out(job.shards, job.written)
    if left_out:
        text = f"{len(left_out)} input files were not stored, the first: {left_out[0]}"
        if trial.on_bad_input == "fail":
            raise EngineError(text)
        log.warning("%s", text)
    samples: list[Sample] = []
    differences: list[str] = []
    verification = "skipped: the engine keeps nothing"
    if engine.flags.stores:
        verification = "required" if must_match else "measured"
        notes = notes_of(job.before)
        cluster = job.cluster or reading_cluster(job, notes)
        with closing(engine.connect(cluster, "read")) as client:
            results = workload.verify(
                VerifyContext(
                    engine=engine,
                    client=client,
                    load=load_params(trial, workload.phases[trial.load.name]),
                    kinds=trial.kinds(),
                    seed=trial.seed,
                    sample=trial.verify,
                    written=job.written,
                    notes=notes,
                    raise_if_aborted=check,
                    study_fields=trial.study_fields,
                )
            )
            if (size := client.disk_bytes()) is not None:
                samples.append(Sample(PHASE, "store_bytes", float(size), "B"))
        for result in results:
            log.info("%s", _describe(result))
            samples += [
                Sample(
                    PHASE, f"{name}_documents", getattr(result, name), "1", operation=result.name
                )
                for name in ("expected", "counted", "checked", "lost", "wrong")
            ]
        differences = [_describe(result) for result in results if result.differs()]
        if differences and must_match:
            title = engine.title_of(job.versions.get("server", ""))
            text = "; ".join(differences)
            raise EngineError(f"{title} lost or changed documents that it had acknowledged: {text}")
        if not trial.keep_data:
            try:
                engine.remove(cluster)
            except EngineError as error:
                log.warning("data of this trial may be left until its next run: %s", error)
    conditions = {
        **job.conditions,
        "verification": verification,
        "left_out": left_out,
        "versions": {**versions(engine, trial.settings), **job.versions},
        "warnings": [*job.conditions.get("warnings", ()), *differences],
    }
    write_trial_part(job.result, samples, trial, PHASE, **conditions)
    if job.before and write_pack(job.before) is None:
        log.info("the trial's parts could not be packed; the analysis reads them one by one")


def _describe(result: Checked) -> str:
    text = (
        f"{result.name}: {result.expected} documents expected, {result.counted} counted, "
        f"{result.lost} lost and {result.wrong} wrong of {result.checked} checked"
    )
    return text + (f", first: {result.first}" if result.first else "")
