"""What it costs to load, to read and to keep: hours of hosts, and money where there are prices.

A host is paid for as long as a phase lasts, whatever it does. So hours per million operations are
hosts / rate, and their interval is that of the rate, turned over; a cost per million is Jim Gray's
price over performance (the "$/tps" of Anon et al., Datamation 31(7), 1985) per operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import pandas as pd
from pydantic import ValidationError

from storewise.analysis.common.engines import CEILING, embedded, external
from storewise.analysis.common.frames import grouped, key_of, missing, records, rows_of
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import Part, host_of, instance_of
from storewise.analysis.judge.comparable_steps import LOAD_RATE, OTHER_RATE, loads, set_rates
from storewise.analysis.judge.corpus import corpus_disk, corpus_warnings, full_size
from storewise.analysis.measure.summary import as_estimate
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import ESTIMATE
from storewise.metrics.ec2_instance import market
from storewise.study.prices import HostPrice, Prices

MILLION = 1e6
HOUR = 3600.0
#: Bytes of what `gb_month` is the price of.
GB = 1e9
MONTHS = 12
COLUMNS = ("phase", "step", "measure", "unit", *ESTIMATE, "nodes_paid", "clients_paid")
TEXTS = ("basis", "paced", "note")
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
    nodes, others = tuple(dict.fromkeys(servers)), sorted(set(clients))
    if one_job:
        return Hosts(nodes, tuple(others[:1]), AS_PLACED)
    every = {*nodes, *others}
    if len(every) <= 1 and len(servers) + workers > 1:
        return Hosts(tuple(servers), tuple(every) * workers, ONE_EACH)
    return Hosts(nodes, tuple(host for host in others if host not in nodes), AS_PLACED)


class HostPrices:
    """Prices of a study's hosts by what they were: a cloud's instances by type and price class,
    else `node_hour` and `client_hour`."""

    def __init__(self, parts: Iterable[Part], prices: Prices) -> None:
        self._prices = prices
        self._instances = {
            (part.trial, host_of(part.conditions)[0]): (
                str(instance.get("type", "")),
                market(str(instance.get("life_cycle", ""))),
            )
            for part in parts
            if (instance := instance_of(part.conditions))
        }

    def of(self, trial: str, hosts: Hosts) -> HostPrice:
        """An hour of all hosts of a trial; its basis is empty where none is an instance."""
        kinds: tuple[tuple[Literal["node", "client"], Sequence[str]], ...] = (
            ("node", hosts.nodes),
            ("client", hosts.clients),
        )
        none = ("", market(""))
        priced = [
            self._prices.host(kind, *self._instances.get((trial, host), none))
            for kind, names in kinds
            for host in names
        ]
        known = any((trial, host) in self._instances for host in (*hosts.nodes, *hosts.clients))
        counts = Counter(one.basis for one in priced)
        texts = [f"{number} x {basis}" for basis, number in sorted(counts.items())]
        basis = f"priced as {all_of(texts)}" if known else ""
        return HostPrice(sum(one.hour for one in priced), basis)


def costs(tables: Tables) -> Judged:
    """The table `costs`: one row per factors' levels, phase, step and measure."""
    factors = list(tables.results.factors)
    columns = [*factors, *COLUMNS, *TEXTS]
    if "engine" not in factors or tables.rates.empty:
        return Judged(pd.DataFrame(columns=columns))
    prices, warnings = _prices(tables.results.study, tables.results.parts)
    rows = list(_phases(tables, factors, prices))
    full = full_size(tables)
    if rows and full is not None:
        warnings += corpus_warnings(full)
        for row in records(corpus_disk(tables, full)):
            place = {name: row[name] for name in (*factors, "phase", "step")}
            place |= {"basis": "disk only, all replicas", "paced": False, "note": row["note"]}
            size = as_estimate(row)
            rows.append({**place, "measure": "corpus_bytes", "unit": "B", **size.columns()})
            if prices is not None:
                place["note"] = _joined(row["note"], prices.source)
                money = size.times(prices.gb_month * MONTHS / GB)
                kept = {"measure": "corpus_money_per_year", "unit": f"{prices.currency}/year"}
                rows.append({**place, **kept, **money.columns()})
    return Judged(pd.DataFrame(rows, columns=columns), warnings)


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _prices(
    study: Mapping[str, Any], parts: Iterable[Part]
) -> tuple[Prices | None, list[StudyWarning]]:
    """The prices that say something of these hosts: the study's own, or those of the instances
    that were used."""
    stored = study.get("prices")
    if not stored:
        return None, []
    try:
        prices = Prices.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"prices.{'.'.join(map(str, first['loc']))} of the results: {first['msg']}"
        return None, [
            StudyWarning(
                "no_prices",
                "",
                f"{problem}; costs are told in hours of hosts only",
                "mend `prices` in the study or in config/prices.yaml and run `snakemake report` "
                "with the study's file; nothing is measured again",
            )
        ]
    used = prices.by_study or any(instance_of(part.conditions) for part in parts)
    return (prices if used else None), []


def _phases(tables: Tables, factors: list[str], prices: Prices | None) -> Iterator[dict[str, Any]]:
    """Hours and money of each phase.

    Hours per million are hosts * 10^6 / rate / 3600; the interval's ends change places. Where the
    rate's interval reaches 0 the cost has no upper end, and so no interval.
    """
    loading = loads(tables.rates)
    paid = paid_hosts(tables, prices).merge(tables.trials[["trial", *factors]], on="trial")
    by_setting = {key: _mean_hosts(group) for key, group in grouped(paid, [*factors, "phase"])}
    paced = set_rates(tables)
    for row in records(tables.rates):
        load = str(row["phase"]) in loading
        rate = row["measure"] == (LOAD_RATE if load else OTHER_RATE)
        if str(row["engine"]) == CEILING or not (rate or row["measure"] == "duration"):
            continue
        hosts = by_setting.get((*key_of(row, factors), str(row["phase"])))
        if hosts is None or not row["mean"] > 0:
            continue
        note = hosts["note"]
        if external(str(row["engine"])):
            note = _joined(note, "the database's own hosts are not known and not paid")
        place = {name: row[name] for name in (*factors, "phase", "step")} | {
            **{name: hosts[name] for name in ("nodes_paid", "clients_paid", "basis")},
            "paced": (str(row["phase"]), int(row["step"])) in paced,
            "note": note,
        }
        measured, count = as_estimate(row), hosts["nodes_paid"] + hosts["clients_paid"]
        if not rate:
            hours = measured.times(count / HOUR).columns()
            yield {**place, "measure": "host_hours", "unit": "h", **hours}
            continue
        per = f"/10^6 {'documents' if load else 'operations'}"
        hours = measured.reciprocal(count * MILLION / HOUR).columns()
        yield {**place, "measure": "host_hours_per_million", "unit": f"h{per}", **hours}
        if prices is not None:
            money = measured.reciprocal(hosts["price_hour"] * MILLION / HOUR).columns()
            place["note"] = _joined(note, hosts["priced"], prices.source)
            unit = f"{prices.currency}{per}"
            yield {**place, "measure": "money_per_million", "unit": unit, **money}


def _mean_hosts(paid: pd.DataFrame) -> dict[str, Any]:
    """One row for the repeats of one setting, of means, with a note where their hosts differ."""
    same = len(paid[["nodes_paid", "clients_paid"]].drop_duplicates()) == 1
    return {
        **{name: fmean(paid[name]) for name in ("nodes_paid", "clients_paid", "price_hour")},
        "basis": str(paid["basis"].iloc[0]),
        "note": "" if same else "hosts differed between repeats; their mean is paid",
        "priced": ", or ".join(sorted({text for text in paid["priced"] if text})),
    }


def paid_hosts(tables: Tables, prices: Prices | None) -> pd.DataFrame:
    """The hosts that each trial's phases are charged: trial, phase, nodes_paid, clients_paid,
    basis; price_hour (0 without prices) is an hour of all of them, `priced` says by which prices.
    """
    hour = HostPrices(tables.results.parts, prices) if prices is not None else None
    servers: dict[str, list[str]] = {}
    for row in rows_of(tables.nodes):
        # A server whose part is missing ran somewhere; alone on its host is all that can be said.
        host = f"({row.node})" if missing(row.host) else str(row.host)
        servers.setdefault(str(row.trial), []).append(host)
    seen = tables.host[tables.host["metric"] == "client_cpu"]
    clients = {
        (str(trial), str(phase)): set(map(str, group["host"]))
        for (trial, phase), group in grouped(seen, ["trial", "phase"])
    }
    one_host = tables.results.study.get("embedded") == "one_host"
    phases = tables.throughput[["trial", "phase"]].drop_duplicates()
    rows = []
    for row in records(phases.merge(tables.trials, on="trial")):
        trial, phase = str(row["trial"]), str(row["phase"])
        workers = 1 if missing(row.get("workers", 1)) else int(row.get("workers", 1))
        of_clients = clients.get((trial, phase)) or set(str(row["host"]).split(", "))
        one_job = one_host and embedded(str(row.get("engine", "")))
        hosts = hosts_paid(servers.get(trial, []), workers, of_clients, one_job=one_job)
        price = hour.of(trial, hosts) if hour is not None else HostPrice(0.0, "")
        rows.append((trial, phase, len(hosts.nodes), len(hosts.clients), hosts.basis, *price))
    columns = ["trial", "phase", "nodes_paid", "clients_paid", "basis", "price_hour", "priced"]
    return pd.DataFrame(rows, columns=columns)
