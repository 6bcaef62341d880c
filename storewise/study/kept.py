"""The copy of a study in its results, so that they can be analysed without its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storewise.atomic import write_aside
from storewise.layout import LEFT_OUT, REFERENCES, STUDY


def keep_study(
    results: Path,
    study: Mapping[str, Any],
    left_out: Mapping[str, str],
    references: Mapping[str, Any],
) -> None:
    """Write the study with its defaults filled in, the engines left out because this host does not
    have them (with the reason), and the published studies that it names."""
    for name, data in ((STUDY, study), (LEFT_OUT, left_out), (REFERENCES, references)):
        write_aside(results / name, json.dumps(data, indent=1) + "\n")
