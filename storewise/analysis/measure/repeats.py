"""Whether there are repeats enough."""

from __future__ import annotations

from collections.abc import Iterator

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.results import Results

#: Repeats from which on stores can be judged.
FEWEST = 3


def few_repeats(results: Results) -> Iterator[StudyWarning]:
    """A warning where the repeats are too few for a useful interval."""
    if results.trials.empty:
        return
    counts = results.trials.groupby(list(results.factors), dropna=False).size()
    low = int(counts.min())
    if low == 1:
        yield StudyWarning(
            "one_repeat",
            "",
            "some figures rest on a single repeat; what differs from run to run is unknown, so "
            "nothing is said about differences where no interval can be had",
            "set `repeats: 3` or more",
        )
    elif low < FEWEST:
        yield StudyWarning(
            "few_repeats",
            "",
            f"some figures rest on {low} repeats, which say little of how runs differ",
            f"set `repeats: {FEWEST}` or more",
        )
