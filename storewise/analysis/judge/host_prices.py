"""Which hosts are paid for a trial, and what an hour of them costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import Part, host_of, instance_of
from storewise.metrics.ec2_instance import market
from storewise.study.prices import HostPrice, Prices

AS_PLACED = "hosts as the jobs lay on them"
ONE_EACH = "one host for each server and worker, though all ran on one"


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that are paid for a trial, by name (one as often as it is paid), and why these."""

    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    basis: str


def hosts_paid(
    servers: Sequence[str], workers: int, clients: Iterable[str], *, one_job: bool = False
) -> Hosts:
    """The hosts to be paid for a trial.

    `servers` has the host of each server, `clients` those of the workers, of which there are
    `workers`. Where all of them ran on a single host (a test on one machine) each is paid as if it
    had its own, for that is what is deployed. Else hosts are paid, not jobs: those that had
    several once, those of servers and clients both as servers'. `one_job` says that all workers
    were one job (`embedded: one_host`) and need one host wherever they run.
    """
    own, others = tuple(dict.fromkeys(servers)), sorted(set(clients))
    if one_job:
        return Hosts(own, tuple(others[:1]), AS_PLACED)
    every = {*own, *others}
    if len(every) <= 1 and len(servers) + workers > 1:
        return Hosts(tuple(servers), tuple(every) * workers, ONE_EACH)
    return Hosts(own, tuple(host for host in others if host not in own), AS_PLACED)


class HostPrices:
    """Prices of a study's hosts by what they were: a cloud's instances by type and price class,
    else `node_hour` and `client_hour`."""

    def __init__(self, parts: Iterable[Part], prices: Prices) -> None:
        self._prices = prices
        self._instances: dict[tuple[str, str], Mapping[str, object]] = {}
        for part in parts:
            if found := instance_of(part.conditions):
                self._instances[part.trial, host_of(part.conditions)[0]] = found

    def _host(self, trial: str, host: str, kind: Literal["node", "client"]) -> HostPrice:
        found = self._instances.get((trial, host), {})
        bought = market(str(found.get("life_cycle", "")))
        return self._prices.host(kind, str(found.get("type", "")), bought)

    def of(self, trial: str, hosts: Hosts) -> HostPrice:
        """An hour of all hosts of a trial; its basis is empty where none is an instance."""
        priced = [self._host(trial, host, "node") for host in hosts.nodes]
        priced += [self._host(trial, host, "client") for host in hosts.clients]
        known = any((trial, host) in self._instances for host in (*hosts.nodes, *hosts.clients))
        counts = Counter(one.basis for one in priced)
        texts = [f"{number} x {basis}" for basis, number in sorted(counts.items())]
        return HostPrice(
            sum(one.hour for one in priced), f"priced as {all_of(texts)}" if known else ""
        )

    def warnings(self) -> list[StudyWarning]:
        """One where types of instances were used that have no price."""
        pairs = {
            (str(one.get("type", "")), market(str(one.get("life_cycle", ""))))
            for one in self._instances.values()
        }
        texts = sorted(
            {
                f"{kind} {bought.replace('_', ' ')}"
                for kind, bought in pairs
                if getattr(self._prices.instances.get(kind), bought, None) is None
            }
        )
        if not texts:
            return []
        return [
            StudyWarning(
                "no_instance_price",
                "",
                f"there is no price of {all_of(texts)}; costs take another, which they name",
                "add it to `instances` in config/prices.yaml and run `snakemake report` with the "
                "study's file; nothing is measured again",
            )
        ]
