"""One job's share of a study's searches."""

from pathlib import Path

from storewise.atomic import write_aside
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.search.batch import SearchPlan, run_searches

with plain_job(snakemake.log[0]) as log:
    search = dict(snakemake.params.search)
    outputs = run_searches(
        SearchPlan(
            queries=tuple(map(Path, search["queries"])),
            libraries=tuple(map(Path, search["libraries"])),
            program=search["program"],
            options=tuple(search["options"]),
            queries_per_file=search["queries_per_file"],
            jobs=search["jobs"],
        ),
        int(snakemake.wildcards.part),
        Path(snakemake.params.outdir),
        log.info,
    )
    write_aside(Path(snakemake.output.files), "".join(f"{path}\n" for path in outputs))
