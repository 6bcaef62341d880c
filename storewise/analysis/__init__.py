"""From a study's results to tables and the verdict: pure functions but for `load_results`.

``analyse(study_dir, outdir)`` writes every table; the other three are its steps.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Imported on first use, so that one topic does not load the others.
_PUBLIC = {
    "analyse": "storewise.analysis.pipeline.output",
    "build_tables": "storewise.analysis.pipeline.build",
    "load_results": "storewise.analysis.pipeline.load",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
