"""Steps limited by the client: their figures say more about the client than about the store.

A step is *client-bound* when a client process of a store outside it used at least 0.9 of a core,
the rate reached at least 0.8 of the null engine's at the same topology (the client's own ceiling),
or the clients spent at least a tenth of their time on their own work between the store's calls. An
embedded store works in the client's process, so there a busy process is no sign. An open loop is as
fast as its target rate, with a store or without.
"""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side, embedded, title
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.model.tables import Tables

BUSY_CLIENT = 0.9
NEAR_CEILING = 0.8
OWN_WORK = 0.1
#: Share of client-bound steps of a store from which on there is a warning; fewer may be chance.
WARNING_SHARE = 0.75


def client_bound(tables: Tables) -> pd.DataFrame:
    """Steps that were limited by the client, not the store: trial, phase, step, engine, reason."""
    factors = list(tables.results.factors)
    columns = [*STEP, "engine", "reason"]
    if "engine" not in factors:
        return pd.DataFrame(columns=columns)
    trials = tables.trials[["trial", *factors]]
    busy = tables.host.merge(trials, on="trial")
    busy = busy[(busy["metric"] == "client_cpu") & (busy["mean"] >= BUSY_CLIENT)]
    busy = busy[(busy["engine"] != CEILING) & ~busy["engine"].map(embedded).astype(bool)]
    # Engine `files` does not store anything in a load either.
    rates = tables.throughput.merge(trials, on="trial")
    rates = rates[rates["rate"].isna() & ~rates["engine"].isin([CEILING, BASELINE])]
    own = rates[(rates["measure"] == "client_share") & (rates["value"] >= OWN_WORK)]
    near = _near_ceiling(rates[rates["measure"] == "operations_per_s"], tables)
    nobody = f"of the client's ceiling ({title(CEILING)})"
    found = [
        busy.assign(reason=[f"a client process used {x:.2f} of a core" for x in busy["mean"]]),
        near.assign(
            reason=[f"it reached {x:.0%} {nobody}" for x in near["value"] / near["top"]],
        ),
        own.assign(reason=[f"{x:.0%} of the time was the client's own work" for x in own["value"]]),
    ]
    table = pd.concat([one[columns].astype(object) for one in found])
    return table.drop_duplicates(ignore_index=True)


def _near_ceiling(rates: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Rates near the highest of the null engine (`top`) at the same levels."""
    alike = [*client_side(tables.results.factors), "phase", "step"]
    means = tables.rates
    ceiling = means[(means["engine"] == CEILING) & (means["measure"] == "operations_per_s")]
    top = ceiling.groupby(alike, dropna=False, observed=True)["mean"].max().rename("top")
    both = rates.merge(top.reset_index(), on=alike)
    return both[both["value"] >= NEAR_CEILING * both["top"]]


def bound_warnings(bound: pd.DataFrame, tables: Tables) -> list[StudyWarning]:
    """One warning for all phases in which the client limited most of a store's steps."""
    if bound.empty:
        return []
    steps = tables.throughput.merge(tables.trials[["trial", "engine"]], on="trial")

    def count(table: pd.DataFrame) -> pd.Series:
        every = table[[*STEP, "engine"]].drop_duplicates().astype({"phase": str})
        return every.groupby(["engine", "phase"]).size()

    share = (count(bound) / count(steps)).dropna()
    names = [f"{title(engine)} ({phase})" for engine, phase in share.index[share >= WARNING_SHARE]]
    if not names:
        return []
    return [
        StudyWarning(
            "client_bound",
            "",
            f"the client limited most steps of {all_of(names)}; first case: "
            f"{bound['reason'].iloc[0]}",
            "the stores may be faster than their figures: use more processes or workers",
        )
    ]
