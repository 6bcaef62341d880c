"""Operations and documents per second, per trial and over repeats.

Definitions (as in closed-loop load generators such as YCSB, Cooper et al., SoCC 2010, section 4,
but without start and end):

- A phase's *wall time* is that of its slowest worker; all start together at a barrier.
- A phase that loads does a fixed amount of work, so its rate is all its documents over the wall
  time, parsing and the final flush included. ``insert_documents_per_s`` leaves parsing out: the
  sum over processes of documents / (time in the store's calls / threads).
- Any other phase is judged by its *steady part*: the whole seconds after warm-up in which every
  worker was active, without the first one, if the phase took at least 5 s and ten operations ended
  in that part; else by the whole time after warm-up (the warning ``short_phase`` names phases under
  5 s), or by the whole phase if no operation ended after warm-up.

Counts of workers, processes and threads are summed; seconds without a finished operation are 0.
``sql/counts.sql`` and ``sql/rates.sql`` make the figures.
"""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.model.columns import RATES

#: Least length, in s, of a phase with a steady part.
MIN_STEADY_SECONDS = 5.0
#: Trial, phase, step.
StepKey = tuple[str, str, int]
#: The operation that ends a load.
FINISH = "finish"


def series(samples: Reduction) -> pd.DataFrame:
    """Operations in each second of each step, summed over workers.

    Columns: trial, phase, step, second, length (s within the step), operations,
    documents, errors (counts), operations_per_s, documents_per_s, warmup, steady.
    """
    return samples.table("FROM series ORDER BY trial, phase, step, second")


def throughput(samples: Reduction) -> pd.DataFrame:
    """One row per trial, phase, step and measure: value, unit."""
    table = samples.table("FROM throughput")
    order = table["measure"].map({name: place for place, name in enumerate(RATES)})
    table = table.assign(order=order, unit=table["measure"].map(RATES))
    table = table.sort_values([*STEP, "order"], ignore_index=True)
    return table[[*STEP, "measure", "value", "unit"]]


def short_phases(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning for all phases with a median below MIN_STEADY_SECONDS."""
    of_phases = table[table["measure"] == "duration"].groupby("phase", observed=True)["value"]
    short = [
        f"{name} ({t:.2g} s)" for name, t in of_phases.median().items() if t < MIN_STEADY_SECONDS
    ]
    if not short:
        return []
    text = (
        f"phases of less than {MIN_STEADY_SECONDS:g} s (median): {all_of(short)}; their rates are "
        "of the whole phase, start included"
    )
    remedy = "give them more work (more inputs, operations or seconds)"
    return [StudyWarning("short_phase", "", text, remedy)]


def errors(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per phase with failed operations."""
    rows = table[(table["measure"] == "errors") & (table["value"] > 0)].astype({"phase": str})
    return [
        StudyWarning(
            "operation_errors",
            group["trial"].iloc[0] if group["trial"].nunique() == 1 else "",
            f"phase {phase}: {group['value'].sum():.0f} operations failed, in "
            f"{group['trial'].nunique()} trials; rates and latencies are of successful operations",
            "see the trials' logs for the first errors",
        )
        for phase, group in rows.groupby("phase")
    ]
