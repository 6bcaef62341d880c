"""From how many questions on a store pays against reading the files again, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from storewise.analysis.common.choices import label
from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.measure.breakeven import times_asked
from storewise.analysis.model.tables import Tables


def asked(
    tables: Tables, promises: Sequence[str], aside: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Per choice and kind of question, how many it takes until its best configuration pays."""
    found: dict[str, dict[str, float]] = {}
    for row in records(tables.breakeven):
        name = label(row, promises)
        if name not in aside:
            own = found.setdefault(name, {})
            own[row["operation"]] = min(own.get(row["operation"], math.inf), row["mean"])
    return found


def sentences(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """From how many questions on each store pays, a sentence each, the soonest first."""
    files = title(BASELINE)
    text = []
    for name, kinds in sorted(found.items(), key=lambda item: (min(item[1].values()), item[0])):
        paying = {k: n for k, n in kinds.items() if math.isfinite(n)}
        never = [k for k, n in kinds.items() if not math.isfinite(n)]
        if not paying:
            text.append(f"Against {files}, {name} never pays for its load: no question is faster.")
            continue
        soon, late = min(paying, key=paying.__getitem__), max(paying, key=paying.__getitem__)
        first = times_asked(paying[soon])
        one = f"{'the first question' if first == '1' else f'{first} questions'} on ({soon})"
        more = f" to {times_asked(paying[late])} ({late})" if late != soon else ""
        no = f"; never for {all_of(never, 'or')}" if never else ""
        text.append(
            f"Against {files}, {name} pays for its load from {one}{more}, by the kind of "
            f"question{no}."
        )
    return text
