"""What a judge hands back; apart from the list of judges, which imports all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning


@dataclass(frozen=True, slots=True)
class Judged:
    """A table and what is doubtful about it."""

    table: pd.DataFrame
    warnings: Sequence[StudyWarning] = ()
    beside: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables that the same work gives, by name."""
