"""Open a trial when it is its turn: its session names the run, so its jobs end when that does."""

import os
from pathlib import Path

from storewise.schedulers.queue import present
from storewise.session.coordination.opening import open_session
from storewise.session.coordination.run import LIVE_VARIABLE, RUN_VARIABLE
from storewise.session.coordination.trial_job import plain_job

with plain_job(snakemake.log[0]) as log:
    open_session(
        Path(snakemake.params.results),
        snakemake.wildcards.trial,
        os.environ[RUN_VARIABLE],
        int(os.environ[LIVE_VARIABLE]),
        log,
        servers=snakemake.params.servers,
        ask=present,
    )
