"""The bottleneck of each step of each trial: client, CPU, memory, disk, network, or none of them.

Every resource of every host is checked for utilization and, if measured, saturation (the USE
method: Gregg, "Thinking Methodically about Performance", CACM 56(2), 2013; *Systems Performance*,
2nd edition, 2020, section 2.5.9). Each resource over its limit is named with its figures. If none
is, operations waited for something that hosts do not report: locks, syncs, round trips, or too few
clients to keep the store busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import CEILING, embedded
from storewise.analysis.common.frames import missing, records, rows_of
from storewise.analysis.common.text import all_of, binary
from storewise.analysis.common.warnings import StudyWarning, often
from storewise.analysis.files.parts import SESSION, Part
from storewise.analysis.judge.client_bound import bound_warnings, client_bound
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.model.tables import Judged, Tables

#: Utilization of all processors over a step from which on they were the limit: with a mean of 90 %
#: no second is idle for long.
CPU_BUSY = 0.9
#: A server is limited by its own processors if it used such a share of them. More than the upper
#: bound shows that the processors it was given were not enforced.
OWN_CPU = (0.9, 1.1)
#: Share of busy time from which on a disk was the limit by itself.
DISK_BUSY = 0.9
#: Utilization from which on requests queue: with deterministic service times (M/D/1) they take
#: 1 + u / (2 - 2u) times as long at utilization u, 1.75 times at 60 %. Together with an iowait of
#: at least DISK_WAIT this is a limit, too.
DISK_QUEUES = 0.6
DISK_WAIT = 0.2
#: Share of memory in use, without the page cache.
MEMORY_FULL = 0.95
#: Bytes per second to and from swap from which on memory is saturated.
SWAPPING = 2.0**20
#: Share of the links' speed in one direction; the rest is headers and variation within a second.
LINK_BUSY = 0.8
#: Most servers that evidence names.
MAX_NAMED = 3
#: Least share of a host's CPU time that the trial's own processes used; below it, other work was
#: the limit.
OWN_SHARE = 0.5

#: Of `host`, from which it is read.
_METRICS = (
    *("cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "disk_busy", "memory_used"),
    *("swap_in", "swap_out", "network_received", "network_sent"),
    *("client_cpu", "store_cpu", "router_cpu"),
)
#: Fields of `HostUse` that are computed from these metrics.
_USES = ("cpu", "iowait", "steal", "disk", "memory", "swap", "network", "traffic")
#: Share of a target rate from which on it counts as reached.
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
#: Priority of causes: a client-bound trial says nothing about its store, and paging looks like a
#: busy disk.
ORDER = (CLIENT, SET_RATE, MEMORY, FOREIGN_CPU, SHARED_CPU, CPU, DISK, NETWORK)

COLUMNS = (*STEP, "limited_by", "also", "evidence", "host")
Key = tuple[str, str, int]
"""Trial, phase, step."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Load of one host in one step. Shares are from 0 to 1, nan if unknown.

    `own_cpu` is the largest share of CPU time that the trial's own processes can have used,
    `servers` maps each server on it to (cores used, processors it was given), `clients` says
    whether clients ran here; `swap` and `traffic` are in B/s.
    """

    host: str
    cpu: float = math.nan
    own_cpu: float = math.nan
    iowait: float = math.nan
    steal: float = math.nan
    disk: float = math.nan
    memory: float = math.nan
    swap: float = math.nan
    network: float = math.nan
    traffic: float = math.nan
    clients: bool = False
    servers: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether servers and clients, or several servers, were on this host."""
        return len(self.servers) + self.clients > 1

    @property
    def who(self) -> str:
        """The servers on the host: their names, or their number if there are many."""
        many = [f"{len(self.servers)} servers"] if len(self.servers) > MAX_NAMED else []
        return all_of([*(many or sorted(self.servers)), *(["clients"] if self.clients else [])])


class Cause(NamedTuple):
    """One limit reached on `host`; `evidence` has the figures, `share` sorts equal kinds."""

    kind: str
    evidence: str
    host: str = ""
    share: float = 0.0


def causes(use: HostUse) -> list[Cause]:
    """The limits that one host had reached."""
    reached = []
    where = f"of the host of {use.who}" if use.who else f"of host {use.host}"
    if use.swap >= SWAPPING or use.memory >= MEMORY_FULL:
        paging = f", {binary(use.swap)}/s to and from swap" if use.swap >= SWAPPING else ""
        share = f"memory {where} {_percent(use.memory)} in use{paging}"
        reached.append(Cause(MEMORY, share, use.host, use.memory))
    if use.cpu >= CPU_BUSY:
        text = f"CPU {where} {_percent(use.cpu)} busy"
        kind = SHARED_CPU if use.shared else CPU
        if use.own_cpu < OWN_SHARE * use.cpu:
            kind = FOREIGN_CPU
            text += f", at most {_percent(use.own_cpu)} by this trial's processes"
        if use.steal >= 1 - CPU_BUSY:
            text += f", {_percent(use.steal)} stolen by other virtual machines"
        reached.append(Cause(kind, text, use.host, use.cpu))
    elif not use.shared:
        # Servers that share a host are not always limited to the processors they were given.
        for name, (cores, processors) in sorted(use.servers.items()):
            if OWN_CPU[0] * processors <= cores <= OWN_CPU[1] * processors:
                text = f"{name} used {cores:.2f} cores and was given {processors:g}"
                reached.append(Cause(CPU, text, use.host, cores / processors))
    queued = use.disk >= DISK_QUEUES and use.iowait >= DISK_WAIT
    if use.disk >= DISK_BUSY or queued:
        text = f"disk {where} {_percent(use.disk)} busy, iowait {_percent(use.iowait)}"
        reached.append(Cause(DISK, text, use.host, use.disk))
    if use.network >= LINK_BUSY:
        text = (
            f"network {where} at {_percent(use.network)} of its links' speed "
            f"({binary(use.traffic)}/s)"
        )
        reached.append(Cause(NETWORK, text, use.host, use.network))
    return reached


def _percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{100 * share:.0f} %"


def limits(tables: Tables) -> Judged:
    """The table `limits`: one row per trial, phase and step."""
    engines = dict(zip(tables.trials["trial"], tables.trials.get("engine", ()), strict=False))
    bound = client_bound(tables)
    found: dict[Key, list[Cause]] = {}
    for row in rows_of(bound):
        key = (row.trial, row.phase, row.step)
        found.setdefault(key, []).append(Cause(CLIENT, row.reason))
    steps = tables.throughput
    rated = steps[(steps["measure"] == "operations_per_s") & steps["rate"].notna()]
    for row in rows_of(rated[rated["value"] >= REACHED * rated["rate"]]):
        text = f"{row.value:,.0f} of the target rate of {row.rate:,.0f} operations/s"
        found.setdefault((row.trial, row.phase, row.step), []).append(Cause(SET_RATE, text))
    uses = host_uses(tables)
    rows = []
    for step in rows_of(steps[steps["measure"] == "duration"]):
        key = (step.trial, step.phase, step.step)
        hosts = uses.get(key, [])
        of_step = found.get(key, []) + [cause for use in hosts for cause in causes(use)]
        if engines.get(step.trial) == CEILING:
            of_step.append(Cause(CLIENT, "there is no store, only the client"))
        rows.append((*key, *_row(of_step, hosts, float(step.value))))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return Judged(table, [*bound_warnings(bound, tables), *busy_hosts(table)])


def _row(
    causes: Sequence[Cause], uses: Sequence[HostUse], seconds: float
) -> tuple[str, str, str, str]:
    """`limited_by`, `also`, `evidence` and `host` of a step (COLUMNS)."""
    ranked = sorted(causes, key=lambda c: (ORDER.index(c.kind), -np.nan_to_num(c.share)))
    kinds = list(dict.fromkeys(cause.kind for cause in ranked)) or [UNKNOWN]
    evidence = "; ".join(dict.fromkeys(cause.evidence for cause in ranked))
    host = ranked[0].host if ranked else ""
    seen = [use for use in uses if not math.isnan(use.cpu)]
    if seen and not host:
        # The host that is nearest to one of its limits.
        near = max(seen, key=lambda use: max(_known(use.cpu, use.disk, use.memory, use.network)))
        host = near.host
        if not ranked:
            shares = {"CPU": near.cpu, "disk": near.disk}
            shares |= {"memory": near.memory, "network": near.network}
            words = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
            kinds, evidence = [NONE], f"the busiest host ({near.who or host}): {words}"
    evidence = evidence or "no figures of any host"
    if seconds < 1:
        # Hosts are sampled each second, and the last sample may be missing.
        evidence += f"; the step took {seconds:.2g} s only"
    return kinds[0], ", ".join(kinds[1:]), evidence, host


def busy_hosts(table: pd.DataFrame) -> list[StudyWarning]:
    """A warning if other work on the hosts limited many steps (`often`)."""
    rows = table[(table["limited_by"] == FOREIGN_CPU) | table["also"].str.contains(FOREIGN_CPU)]
    if not often(len(rows), len(table)):
        return []
    hosts = sorted(set(rows["host"]) - {""})
    return [
        StudyWarning(
            "busy_host",
            "",
            f"{len(rows)} of {len(table)} steps ran on hosts ({all_of(hosts)}) whose processors "
            "were mostly busy with work of other processes",
            "keep other work off the hosts (`exclusive` allocation of nodes) and measure again",
        )
    ]


def _host_facts(parts: Sequence[Part]) -> pd.DataFrame:
    """The hardware of each host by its name, as its jobs recorded it; nan if unknown."""
    hosts = [part.conditions.get("host") for part in parts]
    named = {str(h["name"]): h for h in hosts if isinstance(h, Mapping) and h.get("name")}
    columns = ["cpus", "memory_bytes", "link_mbit"]
    rows = [[host.get(name) for name in columns] for host in named.values()]
    return pd.DataFrame(rows, pd.Index(list(named), dtype=str), columns, dtype=float)


def host_uses(tables: Tables) -> dict[Key, list[HostUse]]:
    """The load of every host of a trial, by trial, phase and step."""
    trials = {row["trial"]: row for row in records(tables.trials)}
    load = tables.host[tables.host["phase"] != SESSION]
    of_node = load["node"] != ""
    cores = load[of_node & (load["metric"] == "store_cpu")]
    places = cores[[*STEP, "node"]].itertuples(index=False, name=None)
    used = dict(zip(places, cores["mean"], strict=True))
    #: Servers and the processors that each was given, by trial and host.
    placed: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows_of(tables.nodes):
        threads = math.nan if missing(row.threads) else float(row.threads)
        placed.setdefault((row.trial, row.host), {})[row.node] = threads
    means = _means(load[~of_node], _host_facts(tables.results.parts))
    spread = means[means["client_cpu"].notna()].groupby(STEP, observed=True).size().to_dict()
    uses: dict[Key, list[HostUse]] = {}
    for row in records(means):
        step: Key = (row["trial"], row["phase"], row["step"])
        servers = {
            node: (used.get((*step, node), math.nan), threads)
            for node, threads in placed.get((step[0], row["host"]), {}).items()
        }
        work = _client_cores(row, trials.get(step[0], {}), spread.get(step, 0))
        work += sum(cores for cores, _ in servers.values())
        use = HostUse(
            row["host"],
            own_cpu=min(1.0, work / row["cpus"]),
            clients=not math.isnan(row["client_cpu"]),
            servers=servers,
            **{name: row[name] for name in _USES},
        )
        uses.setdefault(step, []).append(use)
    return uses


def _means(load: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, phase, step and host with the means of _METRICS, its facts and _USES."""
    load = load[load["metric"].isin(_METRICS)]
    wide = load.pivot_table(index=[*STEP, "host"], columns="metric", values="mean", observed=True)
    wide = wide.reindex(columns=list(_METRICS)).reset_index().join(facts, on="host")
    traffic = np.fmax(wide["network_received"], wide["network_sent"])
    return wide.assign(
        cpu=(wide["cpu_user"] + wide["cpu_system"] + wide["cpu_steal"]) / 100,
        iowait=wide["cpu_iowait"] / 100,
        steal=wide["cpu_steal"] / 100,
        disk=wide["disk_busy"] / 100,
        memory=wide["memory_used"] / wide["memory_bytes"],
        swap=wide["swap_in"] + wide["swap_out"],
        traffic=traffic,
        network=traffic / (wide["link_mbit"] * 1e6 / 8),
    )


def _client_cores(mean: Mapping[str, float], trial: Mapping[str, Any], hosts: int) -> float:
    """Upper bound of the cores that clients and routers used on a host, of `hosts` with clients."""
    counts = [trial.get(name) for name in ("workers", "processes")]
    workers, processes = (1 if missing(n) else int(n or 1) for n in counts)
    cores = mean["client_cpu"] * math.ceil(workers / max(1, hosts)) * processes
    if embedded(str(trial.get("engine"))) and not math.isnan(mean["store_cpu"]):
        # An embedded store works in its clients; `store_cpu` is their sum.
        cores = mean["store_cpu"]
    return sum(_known(cores, mean["router_cpu"]))


def _known(*values: float) -> list[float]:
    # Called 100,000 times in large studies: NumPy takes ten times as long for two values.
    return [value for value in values if not math.isnan(value)]
