"""What a choice is: a store together with what it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, title

#: Factors that change what one gets, not only how fast: part of the choice where they vary.
PROMISES = ("consistency", "index")


def varying_promises(trials: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Those of which one engine was measured at several levels."""
    return [
        name
        for name in PROMISES
        if name in factors
        and len(trials)
        and bool((trials.groupby("engine")[name].nunique() > 1).any())
    ]


def label(row: Mapping[str, Any], promises: Sequence[str]) -> str:
    """What a choice is called: the store and what it promises, where that varies."""
    if row["engine"] == BASELINE:
        return title(BASELINE)  # it promises nothing
    extra = [str(row[f]) if f == "consistency" else f"{f} {row[f]}" for f in promises if f in row]
    name = title(str(row["engine"]))
    return f"{name} ({', '.join(extra)})" if extra else name
