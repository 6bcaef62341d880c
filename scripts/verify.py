"""Compare what a trial stored with what its inputs hold."""

from contextlib import ExitStack
from pathlib import Path

from storewise.driver.verify import run_verify
from storewise.driver.worker_job import ClientJob
from storewise.session.coordination.liveness import FINISHED
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.external import external_store, is_external
from storewise.session.jobs.sidecar import phase_cluster
from storewise.study.trial import Trial

results, log_file = Path(snakemake.params.results), Path(snakemake.log[0])
session = Path(snakemake.input.session)
defer = 3.0 if snakemake.input.get("cluster") else 0.0
needs = list(snakemake.input)
with (
    trial_job(results, session, "verify", log_file, needs=needs, defer=defer) as job,
    ExitStack() as stack,
):
    trial = Trial.model_validate(snakemake.params.trial)
    served, check = {}, job.check
    if snakemake.input.get("cluster"):
        servers = stack.enter_context(
            phase_cluster(
                trial,
                log_file.parent,
                job,
                phase="verify",
                worker=0,
                workers=1,
            )
        )
        check = servers.check
        served = {"cluster": servers.cluster, "versions": servers.formed.server_versions()}
    if outside := is_external(trial):
        store = stack.enter_context(
            external_store(trial, job.session.run, results, job.log, ends=True)
        )
        served = {"cluster": store.cluster, "versions": store.versions}
    run_verify(
        ClientJob(
            trial=trial,
            shards=next(map(Path, snakemake.input.shards), None),
            before=tuple(map(Path, snakemake.input.before)),
            stores=tuple(map(Path, snakemake.input.stores)),
            written=tuple(map(Path, snakemake.input.written)),
            result=Path(snakemake.output.result),
            conditions={"run": job.session.run, "opened": job.session.opened},
            **served,
        ),
        check,
        job.log,
    )
    if not served or outside:
        (job.live / FINISHED).touch()  # otherwise closing its session does
