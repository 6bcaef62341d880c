"""Open a trial: its session names the run, so that its jobs end when the run does."""

import os
import time
from pathlib import Path

from storewise.session.job import plain_job
from storewise.session.live import Session, remove_tree
from storewise.session.run import LEASES, RUN_VARIABLE, Lease

with plain_job(snakemake.log[0]):
    results = Path(snakemake.params.results)
    run = os.environ[RUN_VARIABLE]
    live = Path(snakemake.output.session).parent
    # A trial is measured whole: nothing of an earlier life may stay beside the new figures.
    remove_tree(results / "trials" / snakemake.wildcards.trial)
    remove_tree(live)
    live.mkdir(parents=True)
    lease = Lease.read(results / LEASES / run)
    Session(snakemake.wildcards.trial, run, lease.seconds, time.time()).write(live)
