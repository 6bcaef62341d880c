"""The page of a study, and its headline numbers."""

from pathlib import Path

from storewise.report.page.page import render
from storewise.session.coordination.trial_job import plain_job

with plain_job(snakemake.log[0]) as log:
    report = render(Path(snakemake.params.results), Path(snakemake.output.page))
    log.info("%s", report.finding)
