"""What hosts were busy with in each step of a trial, and what they have.

Thresholds are those from which on a resource counts as a limit
(``storewise.analysis.judge.bottlenecks``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import embedded
from storewise.analysis.common.frames import keys_of, missing, numbered, records, rows_of
from storewise.analysis.common.text import all_of
from storewise.analysis.files.parts import SESSION, Part
from storewise.analysis.measure.throughput import STEP
from storewise.analysis.model.tables import Tables

#: Share of all processors' time over a whole step from which on they were the limit: a mean of 90 %
#: leaves no second idle for long.
CPU_BUSY = 0.9
#: Shares of its processors, of a server that has so many: above the second they are no limit to it.
OWN_CPU = (0.9, 1.1)
#: Share of time with work from which on a disk was the limit by itself.
DISK_BUSY = 0.9
#: From here on requests queue: with one server and even services (M/D/1) they take
#: 1 + u / (2 - 2u) times as long at utilization u, 1.75 times at 60 %. With processors that wait
#: for disks as much as DISK_WAIT says that is a limit too.
DISK_QUEUES = 0.6
DISK_WAIT = 0.2
#: Share of memory in use, page cache not counted.
MEMORY_FULL = 0.95
#: Bytes per second to and from swap that are more than leftovers: any lasting paging is saturation.
SWAPPING = 2.0**20
#: Share of the links' speed in one direction; the rest is headers and what a second's mean hides.
LINK_BUSY = 0.8
#: Servers that evidence names.
NAMED = 3
#: Part of the processors' busy time that a trial's own processes must have had, lest other work
#: be the limit.
OWN_SHARE = 0.5

#: Of `host`, from which it is read.
_METRICS = (
    *("cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "disk_busy", "memory_used"),
    *("swap_in", "swap_out", "network_received", "network_sent"),
    *("client_cpu", "store_cpu", "router_cpu"),
)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host has; nan where it is not known. `link` is bytes/s in one direction."""

    cpus: float = math.nan
    memory: float = math.nan
    link: float = math.nan


@dataclass(frozen=True, slots=True)
class HostUse:
    """What one host was busy with in one step. Shares are of 1 and nan where unknown.

    `own_cpu` is the most of all processors' time that the trial's own processes can have had,
    `servers` maps each server on it to (cores used, processors it was given), `clients` says
    whether clients ran here, `client_cpu` is that of the busiest client process in cores.
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
    client_cpu: float = math.nan
    clients: bool = False
    servers: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether servers and clients, or several servers, were on this host."""
        return len(self.servers) + self.clients > 1

    @property
    def who(self) -> str:
        """Whose host it is."""
        names = [*sorted(self.servers), *(["clients"] if self.clients else [])]
        return all_of(names)

    @property
    def short(self) -> str:
        """The same, many servers by their number."""
        if len(self.servers) <= NAMED:
            return self.who
        return all_of([f"{len(self.servers)} servers", *(["clients"] if self.clients else [])])


def host_facts(parts: Sequence[Part]) -> dict[str, HostFacts]:
    """What each host has, as the jobs on it told."""
    found: dict[str, HostFacts] = {}
    for part in parts:
        host = part.conditions.get("host")
        if isinstance(host, Mapping) and host.get("name"):
            speed = host.get("link_mbit")
            found[str(host["name"])] = HostFacts(
                cpus=float(host.get("cpus") or math.nan),
                memory=float(host.get("memory_bytes") or math.nan),
                link=float(speed) * 1e6 / 8 if speed else math.nan,
            )
    return found


def host_uses(tables: Tables, *, every: bool = True) -> dict[tuple[str, str, int], list[HostUse]]:
    """What every host of a trial was busy with, by trial, phase and step.

    Without `every` only hosts that a limit may be read from (`_telling`).
    """
    facts = host_facts(tables.results.parts)
    trials = {str(row["trial"]): row for row in records(tables.trials)}
    given = {
        (str(row.trial), str(row.node)): (
            str(row.host) if not missing(row.host) else "",
            math.nan if missing(row.threads) else float(row.threads),
        )
        for row in rows_of(tables.nodes)
    }
    placed: dict[tuple[str, str], list[str]] = {}
    for (trial, node), (host, _) in given.items():
        placed.setdefault((trial, host), []).append(node)
    load = tables.host[tables.host["phase"] != SESSION]
    of_node = (load["node"] != "").to_numpy()
    cores: dict[tuple[str, str, int, str], dict[str, float]] = {}
    for row in rows_of(load[of_node & (load["metric"] == "store_cpu").to_numpy()]):
        key = (str(row.trial), str(row.phase), int(row.step), str(row.host))
        cores.setdefault(key, {})[str(row.node)] = float(row.mean)
    means = _means(load[~of_node])
    spread = Counter(means[means["client_cpu"].notna()][STEP].itertuples(index=False, name=None))
    found: dict[tuple[str, str, int], list[HostUse]] = {}
    for row in records(means if every else _telling(means, facts, placed)):
        key = (row["trial"], row["phase"], row["step"], row["host"])
        step, told, host = key[:3], trials.get(key[0], {}), key[3]
        mine = {name: row[name] for name in _METRICS if not math.isnan(row[name])}
        servers = {
            node: (cores.get(key, {}).get(node, math.nan), given[key[0], node][1])
            for node in placed.get((key[0], host), [])
        }
        processes = _clients(told, spread[step])
        known = facts.get(host, HostFacts())
        found.setdefault(step, []).append(_use(host, mine, servers, known, processes, told))
    return found


def _means(load: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, phase, step and host with the means of _METRICS."""
    load = load[load["metric"].isin(_METRICS)]
    places = numbered(load, [*STEP, "host"])
    wide = keys_of(load, [*STEP, "host"], places.first)
    metric = load["metric"].astype("category").cat
    mean = np.full((places.groups, len(metric.categories)), np.nan)
    mean[places.number, metric.codes.to_numpy()] = load["mean"].to_numpy(dtype=float)
    known = dict(zip(metric.categories, mean.T, strict=True))
    return wide.assign(**{name: known.get(name, np.nan) for name in _METRICS})


def _telling(
    means: pd.DataFrame,
    facts: Mapping[str, HostFacts],
    placed: Mapping[tuple[str, str], Sequence[str]],
) -> pd.DataFrame:
    """The rows of hosts that a limit may be read from: those with servers, those that reached one,
    and of each step the busiest. Of hundreds of hosts with clients the others tell nothing more.
    """
    known = [facts.get(host, HostFacts()) for host in means["host"]]
    cpu = (means["cpu_user"] + means["cpu_system"] + means["cpu_steal"]).to_numpy() / 100
    disk = means["disk_busy"].to_numpy() / 100
    memory = means["memory_used"].to_numpy() / np.array([one.memory for one in known])
    traffic = np.fmax(*(means[f"network_{way}"].to_numpy() for way in ("received", "sent")))
    network = traffic / np.array([one.link for one in known])
    swap = (means["swap_in"] + means["swap_out"]).to_numpy()
    keys = zip(means["trial"], means["host"], strict=True)
    keep = np.array([key in placed for key in keys], dtype=bool)
    keep |= (cpu >= CPU_BUSY) | (memory >= MEMORY_FULL) | (swap >= SWAPPING)
    keep |= (disk >= min(DISK_BUSY, DISK_QUEUES)) | (network >= LINK_BUSY)
    pressure = np.fmax(np.fmax(cpu, disk), np.fmax(memory, network))
    # `_row` shows hosts whose processors are known only.
    pressure = np.where(np.isnan(cpu) | np.isnan(pressure), -np.inf, pressure)
    steps = numbered(means, STEP)
    highest = steps.highest(pressure)
    keep |= pressure == highest[steps.number]
    return means[keep]


def _clients(trial: Mapping[str, Any], hosts: int) -> int:
    """Client processes on a host with clients, at most."""
    counts = [trial.get(name) for name in ("workers", "processes")]
    workers, processes = (1 if missing(n) else int(n or 1) for n in counts)
    return math.ceil(workers / max(1, hosts)) * processes


def _use(
    host: str,
    mean: Mapping[str, float],
    servers: Mapping[str, tuple[float, float]],
    facts: HostFacts,
    processes: int,
    trial: Mapping[str, Any],
) -> HostUse:
    def of(*metrics: str) -> float:
        return sum(mean.get(metric, math.nan) for metric in metrics)

    client = mean.get("client_cpu", math.nan)
    inside = embedded(str(trial.get("engine")))
    clients = 0.0 if math.isnan(client) else client * processes
    # An embedded store works in its clients; `store_cpu` is their sum.
    work = [mean.get("store_cpu", clients) if inside else clients]
    work += [mean.get("router_cpu", 0.0), *(cores for cores, _ in servers.values())]
    traffic = max(mean.get("network_received", math.nan), mean.get("network_sent", math.nan))
    return HostUse(
        host=host,
        cpu=of("cpu_user", "cpu_system", "cpu_steal") / 100,
        own_cpu=min(1.0, sum(work) / facts.cpus),
        iowait=of("cpu_iowait") / 100,
        steal=of("cpu_steal") / 100,
        disk=of("disk_busy") / 100,
        memory=of("memory_used") / facts.memory,
        swap=of("swap_in", "swap_out"),
        network=traffic / facts.link,
        traffic=traffic,
        client_cpu=client,
        clients=not math.isnan(client),
        servers=servers,
    )
