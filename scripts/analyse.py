"""Tables and figures of a study, from its stored results."""

import json
from pathlib import Path

from storewise.analysis.output import analyse
from storewise.figures.captions import make_figures
from storewise.session.job import plain_job
from storewise.session.live import write_aside

with plain_job(snakemake.log[0]):
    results = Path(snakemake.params.results)
    write_aside(results / "study.json", json.dumps(snakemake.params.study, indent=1) + "\n")
    analyse(results, Path(snakemake.output.tables))
