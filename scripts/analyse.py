"""Tables and figures of a study, from its stored results."""

import json
from pathlib import Path

from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_study
from storewise.atomic import write_aside
from storewise.cli.progress import lines
from storewise.figures.captions import make_figures
from storewise.figures.verdict_picture import write_picture
from storewise.layout import LEFT_OUT, REFERENCES, STUDY
from storewise.session.coordination.trial_job import plain_job

with plain_job(snakemake.log[0]) as log:
    results = Path(snakemake.params.results)
    write_aside(results / STUDY, json.dumps(snakemake.params.study, indent=1) + "\n")
    write_aside(results / LEFT_OUT, json.dumps(snakemake.params.left_out, indent=1) + "\n")
    write_aside(results / REFERENCES, json.dumps(snakemake.params.references, indent=1) + "\n")
    progress = lines(log.info, "trials read")
    stored = load_results(results, processes=snakemake.threads, progress=progress)
    tables, verdict = write_study(stored, Path(snakemake.output.tables))
    make_figures(tables, Path(snakemake.output.figures))
    write_picture(tables, verdict, Path(snakemake.output.figures))
    log.info("%s", verdict.finding)
