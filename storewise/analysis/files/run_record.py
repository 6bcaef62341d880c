"""Whether the record of the last run is whole."""

from __future__ import annotations

import json
from pathlib import Path

from storewise.layout import RECORD


def record_damage(results: Path) -> str | None:
    """What is wrong with the last run's record, in words; None where there is none, or it is whole
    (that of another version, too)."""
    path = results / RECORD
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"{path}: the record of the last run was cut short or changed: {error}"
    return None
