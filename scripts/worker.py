"""One worker of one phase of a trial."""

from contextlib import ExitStack
from pathlib import Path

from storewise.driver.worker import run_worker
from storewise.driver.worker_job import WorkerJob
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.external import external_store, is_external
from storewise.session.jobs.sidecar import phase_cluster
from storewise.study.trial import Trial

phase, worker = snakemake.params.phase, int(snakemake.wildcards.worker)
results, log_file = Path(snakemake.params.results), Path(snakemake.log[0])
session, name = Path(snakemake.input.session), f"{phase}.{worker}"
defer = 3.0 if snakemake.input.get("cluster") else 0.0
needs = list(snakemake.input)
with (
    trial_job(results, session, name, log_file, needs=needs, defer=defer) as job,
    ExitStack() as stack,
):
    trial = Trial.model_validate(snakemake.params.trial)
    store = snakemake.output.get("store")
    files = snakemake.output.get("written")
    conditions = {"run": job.session.run, "opened": job.session.opened}
    served, check = {}, job.check
    if snakemake.input.get("cluster"):
        servers = stack.enter_context(
            phase_cluster(
                trial,
                log_file.parent,
                job,
                phase=phase,
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
        if store:
            Path(store).mkdir()  # the servers have the data
    if is_external(trial):
        outside = stack.enter_context(
            external_store(
                trial, job.session.run, results, job.log, creates=bool(store) and worker == 0
            )
        )
        served = {"cluster": outside.cluster, "versions": outside.versions}
        if store:
            Path(store).mkdir()  # the database has the data
    run_worker(
        WorkerJob(
            trial=trial,
            phase=phase,
            worker=worker,
            shards=next(map(Path, snakemake.input.shards), None),
            before=tuple(map(Path, snakemake.input.get("before", []))),
            written=tuple(map(Path, snakemake.input.get("written", []))),
            live=job.live,
            store=Path(store) if store else None,
            stores=tuple(map(Path, snakemake.input.get("stores", []))),
            result=Path(snakemake.output.result),
            hdr_log=Path(snakemake.output.hdr),
            files=Path(files) if files else None,
            conditions=conditions,
            **served,
        ),
        check,
        job.log,
    )
