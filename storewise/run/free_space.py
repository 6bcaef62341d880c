"""Whether the file system of the results has room for a run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from storewise.analysis.common.engines import BASELINE, CEILING, embedded
from storewise.analysis.common.text import binary
from storewise.analysis.files.inputs import read_manifest
from storewise.layout import MANIFEST
from storewise.study.study import Study
from storewise.workloads.registry import workload

#: Bytes that any run needs: results, logs, report, and the test of the disk before each phase,
#: which writes at full speed for 0.05 s.
MIN_FREE = 256 << 20


def too_little(study: Study, results: Path) -> str | None:
    """A sentence where a run would fill the disk of its results, None where it has room.

    An embedded store lies there and takes at least about what the inputs do, which are mostly
    compressed. Servers may have their data on other hosts: they do not count.
    """
    place = next(path for path in (results, *results.absolute().parents) if path.exists())
    if not os.access(place, os.W_OK):
        return None  # writing will fail with an error of its own
    free, needed = shutil.disk_usage(place).free, MIN_FREE + _store_bytes(study, results)
    if free >= needed:
        return None
    return (
        f"there is not enough space: {results.absolute()} has {binary(free)} free, and this study "
        f"needs {binary(needed)} at least. Make room there, or run in another directory"
    )


def _store_bytes(study: Study, results: Path) -> int:
    """Estimated bytes of one trial's store; 0 where they are not known."""
    stores = [name for name in study.engines if name not in (BASELINE, CEILING) and embedded(name)]
    if not stores or not workload(study.workload).reads_inputs:
        return 0
    totals, _ = read_manifest(results / MANIFEST)
    return int(totals.bytes * max(study.factors.get("volume", [1.0]))) if totals else 0
