"""What it costs to load, to read and to keep: hours of hosts, and money where there are prices.

A host is paid for as long as a phase lasts, whatever it does. So hours per million operations are
hosts / rate, and their interval is that of the rate, turned over; a cost per million is Jim Gray's
price over performance (the "$/tps" of Anon et al., Datamation 31(7), 1985) per operation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import pandas as pd
from pydantic import ValidationError

from storewise.analysis.common.engines import CEILING, embedded, external
from storewise.analysis.common.frames import grouped, missing, records, rows_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.judge.corpus import corpus_disk, corpus_warnings, full_size, load_phases
from storewise.analysis.judge.headline_rates import set_rates
from storewise.analysis.judge.host_prices import HostPrices, hosts_paid
from storewise.analysis.model.judged import Judged
from storewise.analysis.model.tables import Tables
from storewise.study.prices import HostPrice, Prices

MILLION = 1e6
HOUR = 3600.0
#: Bytes of what `gb_month` is the price of.
GB = 1e9
MONTHS = 12
#: The columns of an estimate.
_ESTIMATE = ("n", "mean", "low", "high", "resampled", "error", "freedom")
COLUMNS = ("phase", "step", "measure", "unit", *_ESTIMATE, "nodes_paid", "clients_paid")
TEXTS = ("basis", "paced", "note")


def per_million(rate: Mapping[str, Any], hosts: float) -> dict[str, Any]:
    """Hours of `hosts` per million of what `rate` counts per second, as an estimate's columns.

    h = hosts * 10^6 / rate / 3600; the interval's ends change places. On logarithms the error of a
    reciprocal is that of the number. Where the rate's interval reaches 0 the cost has no upper end,
    and so no interval.
    """
    factor = hosts * MILLION / HOUR
    known = rate["resampled"] != "none" and rate["low"] > 0
    return {
        "n": rate["n"],
        "mean": factor / rate["mean"],
        "low": factor / rate["high"] if known else math.nan,
        "high": factor / rate["low"] if known else math.nan,
        "resampled": rate["resampled"] if known else "none",
        "error": rate["error"] if known else math.nan,
        "freedom": rate["freedom"] if known else math.nan,
    }


def scaled(row: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """An estimate times a number; on logarithms its error stays."""
    found = {name: row[name] for name in _ESTIMATE}
    return found | {name: row[name] * factor for name in ("mean", "low", "high")}


def costs(tables: Tables) -> Judged:
    """The table `costs`: one row per factors' levels, phase, step and measure."""
    factors = list(tables.results.factors)
    columns = [*factors, *COLUMNS, *TEXTS]
    empty = pd.DataFrame(columns=columns)
    if "engine" not in factors or tables.summary.empty:
        return Judged(empty)
    prices, warnings = _prices(tables.results.study)
    hour = HostPrices(tables.results.parts, prices) if prices is not None else None
    if hour is not None:
        warnings += hour.warnings()
    rows = _phases(tables, factors, prices, hour)
    if not rows:
        return Judged(empty)
    full = full_size(tables)
    if full is not None:
        warnings += corpus_warnings(tables, full)
        for row in records(corpus_disk(tables, full)):
            place = {name: row[name] for name in (*factors, "phase", "step")}
            place |= {"basis": "disk only, all replicas", "paced": False, "note": row["note"]}
            rows.append({**place, "measure": "corpus_bytes", "unit": "B", **scaled(row, 1.0)})
            if prices is not None:
                rows.append(
                    {
                        **place,
                        "note": "; ".join(filter(None, [row["note"], prices.source])),
                        "measure": "corpus_money_per_year",
                        "unit": f"{prices.currency}/year",
                        **scaled(row, prices.gb_month * MONTHS / GB),
                    }
                )
    return Judged(pd.DataFrame(rows, columns=columns), warnings)


def _prices(study: Mapping[str, Any]) -> tuple[Prices | None, list[StudyWarning]]:
    given = study.get("prices")
    problem = "the results have no prices"
    try:
        if given:
            return Prices.model_validate(given), []
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"prices.{'.'.join(map(str, first['loc']))} of the results: {first['msg']}"
    return None, [
        StudyWarning(
            "no_prices",
            "",
            f"{problem}; costs are told in hours of hosts only",
            "set `prices` in the study or in config/prices.yaml and run `snakemake report` with "
            "the study's file; nothing is measured again",
        )
    ]


def _phases(
    tables: Tables, factors: list[str], prices: Prices | None, hour: HostPrices | None
) -> list[dict[str, Any]]:
    """Hours and money of each phase."""
    loads = load_phases(tables.summary)
    paid = paid_hosts(tables, hour).merge(tables.trials[["trial", *factors]], on="trial")
    by_setting = {key: _mean_hosts(group) for key, group in grouped(paid, [*factors, "phase"])}
    paced = set_rates(tables)
    rows: list[dict[str, Any]] = []
    for row in records(tables.summary):
        load = str(row["phase"]) in loads
        rate = row["measure"] == ("documents_per_s" if load else "operations_per_s")
        if str(row["engine"]) == CEILING or not (rate or row["measure"] == "duration"):
            continue
        setting = tuple(None if missing(row[f]) else row[f] for f in factors)
        hosts = by_setting.get((*setting, str(row["phase"])))
        if hosts is None or not row["mean"] > 0:
            continue
        nodes, clients, basis, note, price, priced = hosts
        notes = [note] if note else []
        if external(str(row["engine"])):
            notes.append("the database's own hosts are not known and not paid")
        place = {name: row[name] for name in (*factors, "phase", "step")} | {
            "nodes_paid": nodes,
            "clients_paid": clients,
            "basis": basis,
            "paced": (str(row["phase"]), int(row["step"])) in paced,
            "note": "; ".join(notes),
        }
        what = "documents" if load else "operations"
        for name, count in (("node", nodes), ("client", clients), ("host", nodes + clients)):
            if not count:
                continue
            if rate:
                told = {
                    "measure": f"{name}_hours_per_million",
                    "unit": f"h/10^6 {what}",
                    **per_million(row, count),
                }
            else:
                told = {
                    "measure": f"{name}_hours",
                    "unit": "h",
                    **scaled(row, count / HOUR),
                }
            rows.append({**place, **told})
        if rate and prices is not None:
            rows.append(
                {
                    **place,
                    "note": "; ".join(filter(None, [*notes, priced, prices.source])),
                    "measure": "money_per_million",
                    "unit": f"{prices.currency}/10^6 {what}",
                    **per_million(row, price),
                }
            )
    return rows


def _mean_hosts(paid: pd.DataFrame) -> tuple[float, float, str, str, float, str]:
    """Hosts of servers and of clients over the repeats of one setting, their basis, and a note;
    the price of their hour, and how that is made."""
    nodes, clients = paid["nodes_paid"].to_list(), paid["clients_paid"].to_list()
    same = len({*zip(nodes, clients, strict=True)}) == 1
    note = "" if same else "hosts differed between repeats; their mean is paid"
    priced = ", or ".join(sorted({text for text in paid["priced"] if text}))
    price = fmean(paid["price_hour"])
    return fmean(nodes), fmean(clients), str(paid["basis"].iloc[0]), note, price, priced


def paid_hosts(tables: Tables, hour: HostPrices | None) -> pd.DataFrame:
    """The hosts that each trial's phases are charged: trial, phase, nodes_paid, clients_paid,
    basis; price_hour (0 without prices) is an hour of all of them, `priced` says by which prices.
    """
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
    rows = []
    phases = tables.throughput[["trial", "phase"]].drop_duplicates()
    told = phases.merge(tables.trials, on="trial")
    for row in records(told):
        trial, phase = str(row["trial"]), str(row["phase"])
        workers = 1 if missing(row.get("workers", 1)) else int(row.get("workers", 1))
        mine = clients.get((trial, phase)) or set(str(row["host"]).split(", "))
        one_job = one_host and embedded(str(row.get("engine", "")))
        found = hosts_paid(servers.get(trial, []), workers, mine, one_job=one_job)
        price = hour.of(trial, found) if hour is not None else HostPrice(0.0, "")
        rows.append((trial, phase, len(found.nodes), len(found.clients), found.basis, *price))
    columns = ["trial", "phase", "nodes_paid", "clients_paid", "basis", "price_hour", "priced"]
    return pd.DataFrame(rows, columns=columns)
