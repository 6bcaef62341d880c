"""A study's results to S3: what is new or changed, and the manifest last."""

from pathlib import Path

from storewise.cli.progress import lines
from storewise.errors import StorewiseError
from storewise.layout import study_name
from storewise.publish.push import carry_out, plan_of, remember, summary
from storewise.publish.results import OLD_REPORT, report_is_old, write_config
from storewise.session.coordination.trial_job import plain_job
from storewise.study.publication import NOT_SAID, Publish

with plain_job(snakemake.log[0]) as log:
    results = Path(snakemake.params.results)
    if snakemake.params.publish is None:
        raise StorewiseError(NOT_SAID.format(study=study_name(results)))
    write_config(results, [Path(path) for path in snakemake.params.written])
    if report_is_old(results):
        log.warning("%s: %s", results, OLD_REPORT)
    publish = Publish.model_validate(snakemake.params.publish)
    todo = plan_of(results, publish, lines(log.info, "files read"))
    carry_out(todo, lines(log.info, "sent", size=True))
    remember(results, todo)
    log.info("%s", summary(todo))
