"""A study's results to S3: what is new or changed, and the manifest last."""

from pathlib import Path

from storewise.analysis.pipeline.progress import tenths
from storewise.publish.push import carry_out
from storewise.publish.results import (
    OLD_REPORT,
    plan_of,
    remember,
    report_is_old,
    told,
    write_config,
)
from storewise.session.coordination.trial_job import plain_job
from storewise.study.publication import Publish

with plain_job(snakemake.log[0]) as log:
    results = Path(snakemake.params.results)
    write_config(results, [Path(path) for path in snakemake.params.written])
    if report_is_old(results):
        log.warning("%s: %s", results, OLD_REPORT)
    publish = Publish.model_validate(snakemake.params.publish)
    todo = plan_of(results, publish, tenths(log.info, words="read {done} of {total} files"))
    carry_out(todo, tenths(log.info, words="sent {done} of {total} bytes"))
    remember(results, todo)
    log.info("%s", told(todo))
