"""One node of a trial's cluster: a server, from its start to the end of its session."""

from pathlib import Path

from storewise.processes import clean_own_environment
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.node import NodeJob, run_node
from storewise.study.trial import Trial

name = snakemake.wildcards.node
results, log_file = Path(snakemake.params.results), Path(snakemake.log[0])
session, resources = Path(snakemake.input.session), snakemake.resources
clean_own_environment(snakemake.params.trial, resources.get("scratch"))
with trial_job(results, session, name, log_file) as job:
    run_node(
        NodeJob(
            trial=Trial.model_validate(snakemake.params.trial),
            node=name,
            result=Path(snakemake.output.result),
            server_log=log_file.with_name(f"{name}.server.log"),
            kept=Path(snakemake.output.result).with_name(f"data.{name}"),
            scratch=str(resources.get("scratch", "")),
            interface=str(resources.get("interface", "lo")),
            ports=str(resources.get("ports", "")),
            runtime_minutes=float(resources.get("runtime", 0)) or None,
        ),
        job,
    )
