"""Tables, figures and the page of a study, from its stored results."""

from pathlib import Path

from storewise.cli.progress import lines
from storewise.report.page.page import make_report
from storewise.session.coordination.trial_job import plain_job
from storewise.study.kept import keep_study

with plain_job(snakemake.log[0]) as log:
    results = Path(snakemake.params.results)
    given = snakemake.params
    keep_study(results, given.study, given.left_out, given.references)
    progress = lines(log.info, "trials read")
    report = make_report(results, processes=snakemake.threads, progress=progress)
    log.info("%s", report.finding)
