"""Whether there are repeats enough."""

from __future__ import annotations

from collections.abc import Iterator

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.results import Results
from storewise.study.checks import MIN_REPEATS


def few_repeats(results: Results) -> Iterator[StudyWarning]:
    """A warning where a setting has too few repeats to be told from another."""
    if results.trials.empty:
        return
    low = int(results.trials.groupby(list(results.factors), dropna=False).size().min())
    if low < MIN_REPEATS:
        yield StudyWarning(
            "few_repeats",
            "",
            f"some settings have {low} of the {MIN_REPEATS} rounds that stores can be judged by",
            f"set `repeats: {MIN_REPEATS}` or more",
        )
