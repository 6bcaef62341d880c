"""What limited each step of each trial: client, processors, memory, disk, network, or none of them.

Every resource of every host is looked at for its utilization and, where that can be seen, its
saturation (the USE method: Gregg, "Thinking Methodically about Performance", CACM 56(2), 2013;
*Systems Performance*, 2nd edition, 2020, section 2.5.9). What is over its limit is named with the
figures that say so. Where nothing is, operations waited for what no host shows: locks, syncs, round
trips, or too few clients to keep the store busy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import grouped, missing, records, rows_of
from storewise.analysis.common.text import all_of, binary
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.judge.host_utilization import (
    CPU_BUSY,
    DISK_BUSY,
    DISK_QUEUES,
    DISK_WAIT,
    LINK_BUSY,
    MEMORY_FULL,
    OWN_CPU,
    OWN_SHARE,
    SWAPPING,
)
from storewise.analysis.judge.host_utilization import HostFacts as HostFacts
from storewise.analysis.judge.host_utilization import HostUse as HostUse
from storewise.analysis.judge.host_utilization import host_facts as host_facts
from storewise.analysis.judge.host_utilization import host_uses as host_uses
from storewise.analysis.measure.throughput import STEP
from storewise.analysis.model.judged import Judged
from storewise.analysis.model.tables import Tables

#: Share of a target rate from which on it was reached.
REACHED = 0.98

CLIENT = "client"
SET_RATE = "rate set by the study"
MEMORY = "memory"
CPU = "CPU"
SHARED_CPU = "CPU of the shared host"
FOREIGN_CPU = "CPU, by other work on the host"
DISK = "disk"
NETWORK = "network"
NONE = "none seen: waiting"
UNKNOWN = "unknown"
#: Which cause comes first where there are several: a client-bound trial tells nothing of its store,
#: and paging looks like a busy disk.
ORDER = (CLIENT, SET_RATE, MEMORY, FOREIGN_CPU, SHARED_CPU, CPU, DISK, NETWORK)

SHARES = ("cpu", "own_cpu", "iowait", "steal", "disk", "memory", "network", "client_cpu")
COLUMNS = (*STEP, "limited_by", "also", "evidence", "host", "node", *SHARES, "seconds")


@dataclass(frozen=True, slots=True)
class Cause:
    """One limit that was reached, on which host, with the figures; `share` sorts equal kinds."""

    kind: str
    evidence: str
    host: str
    share: float


def causes(use: HostUse) -> list[Cause]:
    """The limits that one host had reached."""
    found = []
    where = f"of the host of {use.short}" if use.short else f"of host {use.host}"
    if use.swap >= SWAPPING or use.memory >= MEMORY_FULL:
        paging = f", {binary(use.swap)}/s to and from swap" if use.swap >= SWAPPING else ""
        share = f"memory {where} {_percent(use.memory)} in use{paging}"
        found.append(Cause(MEMORY, share, use.host, use.memory))
    if use.cpu >= CPU_BUSY:
        text = f"CPU {where} {_percent(use.cpu)} busy"
        kind = SHARED_CPU if use.shared else CPU
        if use.own_cpu < OWN_SHARE * use.cpu:
            kind = FOREIGN_CPU
            text += f", at most {_percent(use.own_cpu)} by this trial's processes"
        if use.steal >= 1 - CPU_BUSY:
            text += f", {_percent(use.steal)} stolen by other virtual machines"
        found.append(Cause(kind, text, use.host, use.cpu))
    elif not use.shared:
        # Several on a host are not always held to what they were given.
        for name, (cores, given) in sorted(use.servers.items()):
            if OWN_CPU[0] * given <= cores <= OWN_CPU[1] * given:
                text = f"{name} used {cores:.2f} cores and was given {given:g}"
                found.append(Cause(CPU, text, use.host, cores / given))
    queued = use.disk >= DISK_QUEUES and use.iowait >= DISK_WAIT
    if use.disk >= DISK_BUSY or queued:
        text = f"disk {where} {_percent(use.disk)} busy, iowait {_percent(use.iowait)}"
        found.append(Cause(DISK, text, use.host, use.disk))
    if use.network >= LINK_BUSY:
        text = (
            f"network {where} at {_percent(use.network)} of its links' speed "
            f"({binary(use.traffic)}/s)"
        )
        found.append(Cause(NETWORK, text, use.host, use.network))
    return found


def _percent(share: float) -> str:
    return "an unknown part" if math.isnan(share) else f"{100 * share:.0f} %"


def limits(tables: Tables) -> Judged:
    """The table `limits`: one row per trial, phase and step."""
    factors = list(tables.results.factors)
    trials = {str(row["trial"]): row for row in records(tables.trials)}
    bound = {
        key: list(dict.fromkeys(map(str, group["reason"])))
        for key, group in grouped(tables.client_bound, STEP)
    }
    rates = target_rates(tables.steps, factors)
    uses = host_uses(tables, every=False)
    steps = tables.throughput
    durations = steps[steps["measure"] == "duration"]
    reached = {
        (r.trial, r.phase, r.step): float(r.value)
        for r in rows_of(steps[steps["measure"] == "operations_per_s"])
    }
    rows = []
    for step in rows_of(durations):
        key = (str(step.trial), str(step.phase), int(step.step))
        trial = trials.get(key[0], {})
        found = [Cause(CLIENT, reason, "", math.nan) for reason in bound.get(key, ())]
        if trial.get("engine") == CEILING:
            found = [Cause(CLIENT, "there is no store, only the client", "", math.nan)]
        levels = tuple(None if missing(trial.get(f)) else trial[f] for f in factors)
        target = rates.get((*levels, *key[1:]), math.nan)
        if reached.get(key, 0.0) >= REACHED * target:
            text = f"{reached[key]:,.0f} of {target:,.0f} operations/s that were asked for"
            found.append(Cause(SET_RATE, text, "", math.nan))
        mine = uses.get(key, [])
        for use in mine:
            found += causes(use)
        rows.append(_row(key, found, mine, float(step.wall)))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return Judged(table, _warnings(table))


def _row(
    key: tuple[str, str, int], found: Sequence[Cause], uses: Sequence[HostUse], seconds: float
) -> dict[str, Any]:
    ranked = sorted(
        found, key=lambda c: (ORDER.index(c.kind), -c.share if not math.isnan(c.share) else 0.0)
    )
    kinds = list(dict.fromkeys(c.kind for c in ranked))
    seen = [use for use in uses if not math.isnan(use.cpu)]
    shown: HostUse | None = None
    if ranked and ranked[0].host:
        shown = next(use for use in uses if use.host == ranked[0].host)
    elif seen:
        shown = max(seen, key=_pressure)
    if ranked:
        evidence = "; ".join(dict.fromkeys(c.evidence for c in ranked))
    elif shown is not None:
        evidence = _quiet(shown)
    else:
        evidence = "no figures of any host"
    if seconds < 1:
        # A second's sample is all there is, and the last one may have been left out.
        evidence += f"; the step took {seconds:.2g} s only"
    return {
        **dict(zip(STEP, key, strict=True)),
        "limited_by": kinds[0] if kinds else (NONE if shown is not None else UNKNOWN),
        "also": ", ".join(kinds[1:]),
        "evidence": evidence,
        "host": shown.host if shown else "",
        "node": shown.who if shown else "",
        **{name: getattr(shown, name) if shown else math.nan for name in SHARES},
        "seconds": seconds,
    }


def _pressure(use: HostUse) -> float:
    """How near a host was to any of its limits."""
    shares = (use.cpu, use.disk, use.memory, use.network)
    return max(share for share in shares if not math.isnan(share))


def _quiet(use: HostUse) -> str:
    """What a host was busy with that had reached no limit."""
    network = (
        "network unknown (its links' speed is not known)"
        if math.isnan(use.network)
        else f"network {_percent(use.network)}"
    )
    parts = [f"CPU {_percent(use.cpu)}", f"disk {_percent(use.disk)}"]
    parts += [f"memory {_percent(use.memory)}", network]
    return f"the busiest host ({use.short or use.host}): {', '.join(parts)}"


def target_rates(steps: pd.DataFrame, factors: Sequence[str]) -> dict[tuple[Any, ...], float]:
    """Operations/s that the study asked for, by factors' levels, phase and step."""
    told = steps[steps["rate"].notna()]
    return {
        (
            *(None if missing(row[f]) else row[f] for f in factors),
            str(row["phase"]),
            int(row["step"]),
        ): float(row["rate"])
        for row in records(told)
    }


def _warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning for all steps that other work on the host limited."""
    rows = table[(table["limited_by"] == FOREIGN_CPU) | table["also"].str.contains(FOREIGN_CPU)]
    if rows.empty:
        return []
    hosts = sorted(set(rows["host"]) - {""})
    return [
        StudyWarning(
            "busy_host",
            "",
            f"{len(rows)} of {len(table)} steps ran on hosts ({all_of(hosts)}) whose processors "
            "were busy mostly with other work than the trial's",
            "keep other work off the hosts (`exclusive` allocation of nodes) and measure again",
        )
    ]
