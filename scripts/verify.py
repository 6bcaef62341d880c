"""Compare what a trial stored with what its inputs hold."""

from contextlib import ExitStack
from pathlib import Path

from storewise.driver.phase_job import await_files
from storewise.driver.verify import run_verify
from storewise.driver.worker_job import ClientJob
from storewise.processes import clean_own_environment
from storewise.session.coordination.liveness import FINISHED
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.external import external_store, is_external
from storewise.session.jobs.sidecar import phase_cluster
from storewise.study.shares import Share
from storewise.study.trial import Trial

clean_own_environment(snakemake.params.trial)
trial = Trial.model_validate(snakemake.params.trial)
share = Share.of(trial, Path(snakemake.output.result).parent, snakemake.params.per_job)
before = share.results(*(phase.name for phase in trial.phases))
session, log_file = Path(snakemake.input.session), Path(snakemake.log[0])
results = session.parents[2]
defer = 3.0 if snakemake.input.get("cluster") else 0.0
needs = [*map(Path, snakemake.input), *before, *share.stores(), *share.all_written()]
with (
    trial_job(results, session, "verify", log_file, needs=needs, defer=defer) as job,
    ExitStack() as stack,
):
    await_files(needs, job.check)
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
            before=before,
            stores=share.stores(),
            written=share.all_written(),
            result=Path(snakemake.output.result),
            conditions={"run": job.session.run, "opened": job.session.opened},
            **served,
        ),
        check,
        job.log,
    )
    if not served or outside:
        (job.live / FINISHED).touch()  # otherwise closing its session does
