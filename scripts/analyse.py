"""Tables and figures of a study, from its stored results."""

from pathlib import Path

from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_study
from storewise.cli.progress import lines
from storewise.figures.captions import make_figures
from storewise.figures.verdict_picture import write_picture
from storewise.session.coordination.trial_job import plain_job
from storewise.study.kept import keep_study

with plain_job(snakemake.log[0]) as log:
    results = Path(snakemake.params.results)
    given = snakemake.params
    keep_study(results, given.study, given.left_out, given.references)
    progress = lines(log.info, "trials read")
    stored = load_results(results, processes=snakemake.threads, progress=progress)
    tables, verdict = write_study(stored, Path(snakemake.output.tables))
    make_figures(tables, Path(snakemake.output.figures))
    write_picture(tables, verdict, Path(snakemake.output.figures))
    log.info("%s", verdict.finding)
