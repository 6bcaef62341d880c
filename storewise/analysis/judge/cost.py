"""Costs of loading, reading and storage: rows of trials as in `measures`.

A host is paid for as long as a phase lasts, whatever it does. So hours per million operations are
hosts / rate; a cost per million is Jim Gray's price over performance (the "$/tps" of Anon et al.,
Datamation 31(7), 1985) per operation. Figures of the full corpus are extrapolated with the trial's
rate and size per document.

Steps with a target rate are left out, because that rate is not the store's; so are existing
databases (engine ``sql``), because their hosts are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import ValidationError

from storewise.analysis.common.engines import CEILING, embedded, external, replica_factor
from storewise.analysis.common.frames import missing, records, rows_of
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import host_of, instance_of
from storewise.analysis.judge.comparable_steps import LOAD_RATE, loads, of_rates
from storewise.analysis.judge.corpus import corpus_warnings, full_size
from storewise.analysis.model.columns import (
    ALL,
    CORPUS_BYTES,
    CORPUS_HOURS,
    CORPUS_MONEY,
    HOSTS,
    HOURS,
    MONEY,
)
from storewise.analysis.model.results import Results
from storewise.metrics.ec2_instance import market
from storewise.study.prices import Prices

MILLION = 1e6
HOUR = 3600.0
#: Bytes of a GB, the unit of the price `gb_month`.
GB = 1e9
MONTHS = 12


def costs(measures: pd.DataFrame, results: Results) -> tuple[pd.DataFrame, list[StudyWarning]]:
    """Rows of `measures` about costs, and warnings about them.

    HOSTS of a phase; HOURS and MONEY per million documents loaded or operations; CORPUS_HOURS to
    load the full corpus; CORPUS_BYTES of all its replicas, and CORPUS_MONEY for their storage per
    year. There is money only if the study has prices.
    """
    whole = measures[(measures["operation"] == ALL) & (measures["value"] > 0)]
    trials = results.trials
    if "engine" not in trials or whole.empty:
        return measures.iloc[:0], []
    unpaid = [name == CEILING or external(str(name)) for name in trials["engine"]]
    whole = whole[~whole["trial"].isin(set(trials.loc[unpaid, "trial"]))]
    searched = {part.phase for part in results.parts if part.conditions.get("searches")}
    closed = whole[whole["rate"].isna() & ~whole["phase"].isin(searched)]
    loading = loads(whole)
    rates = closed[of_rates(closed, loading, [LOAD_RATE])]
    prices, warnings = _prices(results)
    rows = list(_of_phases(rates, loading, results, prices))
    full = full_size(measures[measures["operation"] == ALL], results)
    if full is not None:
        warnings += corpus_warnings(full)
        load = rates[rates["phase"].isin(loading)]
        hours = full.documents / load["value"] / HOUR
        rows.append(load.assign(measure=CORPUS_HOURS, value=hours, unit="h"))
        sizes = whole[whole["measure"] == "bytes_per_document"]
        copies = {row["trial"]: replica_factor(row) for row in records(trials)}
        taken = sizes["value"] * sizes["trial"].map(copies).astype(float) * full.documents
        rows.append(sizes.assign(measure=CORPUS_BYTES, value=taken, unit="B"))
        if prices is not None:
            year, unit = taken * prices.gb_month * MONTHS / GB, f"{prices.currency}/year"
            rows.append(sizes.assign(measure=CORPUS_MONEY, value=year, unit=unit))
    return pd.concat(rows, ignore_index=True).assign(count=np.nan), warnings


def _of_phases(
    rates: pd.DataFrame, loading: Collection[str], results: Results, prices: Prices | None
) -> Iterator[pd.DataFrame]:
    """HOSTS, HOURS and MONEY of each phase."""
    paid = paid_hosts(rates[["trial", "phase"]].drop_duplicates(), results, prices)
    rates = rates.merge(paid, on=["trial", "phase"])
    hours = MILLION / rates["value"] / HOUR
    per = [f"/10^6 {'documents' if p in loading else 'operations'}" for p in rates["phase"]]
    rates, hosts = rates.drop(columns=["hosts", "paid", "price_hour"]), rates
    yield rates.assign(measure=HOSTS, value=hosts["hosts"], unit="hosts")
    yield rates.assign(measure=HOURS, value=hours * hosts["paid"], unit=[f"h{p}" for p in per])
    if prices is not None:
        money, unit = hours * hosts["price_hour"], [f"{prices.currency}{p}" for p in per]
        yield rates.assign(measure=MONEY, value=money, unit=unit)


def hosts_paid(
    servers: Sequence[str], workers: int, clients: Iterable[str], *, one_job: bool = False
) -> tuple[Sequence[str], Sequence[str]]:
    """The hosts to pay for in a trial: those of servers, and those of clients.

    `servers` has the host of each server, `clients` the hosts of the workers, of which there were
    `workers`. If all ran on one host (a test on one machine), the host is listed once for each job,
    as each would have its own. Otherwise each host is listed once; one that ran both counts as a
    server. `one_job`: all workers were one job (`embedded: one_host`) and need one host.
    """
    nodes, others = list(dict.fromkeys(servers)), sorted(set(clients))
    if one_job:
        return nodes, others[:1]
    every = {*nodes, *others}
    if len(every) <= 1 and len(servers) + workers > 1:
        return servers, list(every) * workers
    return nodes, [host for host in others if host not in nodes]


def paid_hosts(phases: pd.DataFrame, results: Results, prices: Prices | None) -> pd.DataFrame:
    """Columns trial, phase, hosts (how many were used), paid (how many are paid: `hosts_paid`) and
    price_hour (of all paid hosts; 0 without prices)."""
    kinds = _instances(results)
    servers: dict[str, list[str]] = {}
    for row in rows_of(results.measured.nodes):
        # A server without a part counts as one host of its own.
        host = f"({row.node})" if missing(row.host) else str(row.host)
        servers.setdefault(str(row.trial), []).append(host)
    load = results.measured.host
    seen = load[load["metric"] == "client_cpu"].groupby(["trial", "phase"], observed=True)["host"]
    clients = {place: set(map(str, hosts)) for place, hosts in seen}
    one_host = results.study.get("embedded") == "one_host"
    rows = []
    for row in records(phases.merge(results.trials, on="trial")):
        trial, phase = str(row["trial"]), str(row["phase"])
        workers = 1 if missing(row.get("workers")) else int(row["workers"])
        of_clients = clients.get((trial, phase)) or set(str(row["host"]).split(", "))
        nodes, others = hosts_paid(
            servers.get(trial, []),
            workers,
            of_clients,
            one_job=one_host and embedded(str(row["engine"])),
        )
        hour = 0.0
        if prices is not None:
            none = ("", market(""))
            hour += sum(prices.host("node", *kinds.get((trial, h), none)).hour for h in nodes)
            hour += sum(prices.host("client", *kinds.get((trial, h), none)).hour for h in others)
        rows.append((trial, phase, len({*nodes, *others}), len(nodes) + len(others), hour))
    return pd.DataFrame(rows, columns=["trial", "phase", "hosts", "paid", "price_hour"])


def _instances(results: Results) -> dict[tuple[str, str], tuple[str, Literal["on_demand", "spot"]]]:
    """Instance type and price class of each cloud host, by trial and host."""
    return {
        (part.trial, host_of(part.conditions)[0]): (
            str(instance.get("type", "")),
            market(str(instance.get("life_cycle", ""))),
        )
        for part in results.parts
        if (instance := instance_of(part.conditions))
    }


def _prices(results: Results) -> tuple[Prices | None, list[StudyWarning]]:
    """The prices that apply to these hosts: the study's own, or those of the used instances."""
    stored = results.study.get("prices")
    if not stored:
        return None, []
    remedy = "fix `prices` in the study or in config/prices.yaml and run `snakemake report` with "
    remedy += "the study's file; nothing is measured again"
    try:
        prices = Prices.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"prices.{'.'.join(map(str, first['loc']))} of the results: {first['msg']}"
        text = f"{problem}; costs are in host hours only"
        return None, [StudyWarning("no_prices", "", text, remedy)]
    kinds = set(_instances(results).values())
    lacking = sorted({kind for kind, price in kinds if not prices.knows(kind, price)})
    text = f"no prices for {all_of(lacking)}: `node_hour` or `client_hour` is used"
    warnings = [StudyWarning("no_prices", "", text, remedy)] if lacking else []
    return (prices, warnings) if prices.by_study or kinds else (None, [])
