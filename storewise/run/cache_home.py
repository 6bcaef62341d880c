"""Where programs of a run keep caches when the user's home cannot be written, or is not there.

Snakemake and matplotlib use ``~/.cache``; Snakemake ends with a traceback without it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: The variable of the XDG Base Directory Specification that names another place.
VARIABLE = "XDG_CACHE_HOME"


def cache_environment(directory: Path) -> dict[str, str]:
    """Variables that name a cache below `directory`, or none where the user's own will do."""
    try:
        given = os.environ.get(VARIABLE)
        own = Path(given) if given else Path.home() / ".cache"
        own.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=own):
            return {}
    except (OSError, RuntimeError):  # there may be no home at all
        return {VARIABLE: str((directory / ".snakemake" / "cache").absolute())}
