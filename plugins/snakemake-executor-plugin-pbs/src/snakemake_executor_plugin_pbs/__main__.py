"""The process that deletes jobs: ``python -m snakemake_executor_plugin_pbs FILE``."""

import sys
from pathlib import Path

from snakemake_executor_plugin_pbs.deletion import main

sys.exit(main(Path(sys.argv[1])))
