"""Tables of the page about hosts: what clients, servers and their hosts did, and how fast those
hosts are."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import binary, number
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import Mark, mark_of
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Show, Table

#: Lines of a table about hosts; of a study with more, each trial has the host that tells most.
MOST_LINES = 2_000
_KEYS = ["trial", "phase", "step", "host"]
_OF_CLIENTS: dict[str, tuple[str, Show]] = {
    "client_cpu": ("busiest client process, cores", number),
    "client_rss": ("memory of clients", binary),
    "router_cpu": ("routers beside them, cores", number),
    "cpu_user": ("CPU user, %", number),
    "cpu_system": ("CPU system, %", number),
    "cpu_iowait": ("CPU iowait, %", number),
    "memory_used": ("memory used", binary),
    "disk_write": ("disk write per s", binary),
    "disk_read": ("disk read per s", binary),
    "disk_busy": ("disk busy, %", number),
}
_OF_SERVERS: dict[str, tuple[str, Show]] = {
    "store_cpu": ("server, cores", number),
    "store_rss": ("memory of the server", binary),
    "store_bytes": ("data directory", binary),
}
_OF_THEIR_HOSTS: dict[str, tuple[str, Show]] = {
    "cpu_user": ("host's CPU user, %", number),
    "cpu_iowait": ("host's CPU iowait, %", number),
    "disk_write": ("host's disk write per s", binary),
    "disk_read": ("host's disk read per s", binary),
    "disk_busy": ("host's disk busy, %", number),
    "network_received": ("host received per s", binary),
}


def client_load_table(tables: Tables) -> Table:
    """Load of clients and their hosts: the mean over a phase, the maximum in brackets.

    Of more than MOST_LINES lines those of the host with the busiest client of each phase.
    """
    load = tables.host[tables.host["metric"].isin(_OF_CLIENTS) & (tables.host["phase"] != SESSION)]
    clients = load[load["metric"] == "client_cpu"].drop_duplicates(_KEYS)
    caption = "Load of clients and hosts: mean and maximum"
    if len(clients) > MOST_LINES:
        busiest = clients.sort_values("mean", ascending=False, kind="stable")
        clients = busiest.drop_duplicates(_KEYS[:3])
        caption += "; of each phase the host with the busiest client, all are in analysis/host.csv"
    load = _rows_at(load, clients, _KEYS)
    present = [metric for metric in _OF_CLIENTS if metric in set(load["metric"])]
    several = load["host"].nunique() > 1
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    for (trial, phase, _, host), group in grouped(load, _KEYS):
        by_metric = {row["metric"]: row for row in records(group)}
        line = [cells.text_cell(name) for name in (trial, phase, *([host] if several else []))]
        line += [cells.load_cell(by_metric.get(name), _OF_CLIENTS[name][1]) for name in present]
        rows.append(line)
        origins.append(mark_of("host", group, trial=trial, phase=phase))
    heads = ["trial", "phase", *(["host"] if several else [])]
    heads += [_OF_CLIENTS[metric][0] for metric in present]
    return Table("load", caption, heads, rows, origins).condensed()


def node_load_table(tables: Tables) -> Table:
    """Load of each node and of its host: the mean over a phase, the maximum in brackets."""
    load = tables.host[tables.host["phase"] != SESSION]
    of_hosts = {
        (*(row[key] for key in _KEYS), row["metric"]): row
        for row in records(load[load["node"] == ""])
    }
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    for (*place, node), group in grouped(load[load["node"] != ""], [*_KEYS, "node"]):
        trial, phase, _, host = place
        by_metric = {row["metric"]: row for row in records(group)}
        line = [cells.text_cell(name) for name in (trial, phase, node, host)]
        line += [
            cells.load_cell(by_metric.get(name), show) for name, (_, show) in _OF_SERVERS.items()
        ]
        line += [
            cells.load_cell(of_hosts.get((*place, name)), show)
            for name, (_, show) in _OF_THEIR_HOSTS.items()
        ]
        rows.append(line)
        origins.append(mark_of("host", group, trial=trial, phase=phase))
    heads = [head for head, _ in (*_OF_SERVERS.values(), *_OF_THEIR_HOSTS.values())]
    caption = "Load of servers and their hosts: mean and maximum"
    heads = ["trial", "phase", "node", "host", *heads]
    return Table("node-load", caption, heads, rows, origins).condensed()


def canary_table(tables: Tables) -> Table:
    """The canary before each trial; of more than MOST_LINES hosts the slowest of each trial."""
    canary: pd.DataFrame = tables.canary
    keys = ["trial", "taken_by", "host"]
    caption = "Canary before each trial: how fast the machine was"
    hosts = canary[canary["metric"] == "canary_cpu"]
    if len(hosts) > MOST_LINES:
        slowest = hosts.sort_values("value", kind="stable").drop_duplicates(keys[:2])
        canary = _rows_at(canary, slowest, keys)
        caption += "; the slowest host of each, all are in analysis/canary.csv"
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    for place, group in grouped(canary, keys):
        values = dict(zip(group["metric"], group["value"], strict=True))
        disk = [values.get(f"canary_disk_{way}") for way in ("write", "read")]
        line = [*map(cells.text_cell, place), cells.number_cell(values.get("canary_cpu"))]
        line += [cells.number_cell(value, lambda rate: f"{binary(rate)}/s") for value in disk]
        rows.append(line)
        origins.append(mark_of("canary", group, trial=place[0]))
    heads = ["trial", "host of", "host", "digests per s", "disk write", "disk read"]
    return Table("canary", caption, heads, rows, origins).condensed()


def _rows_at(table: pd.DataFrame, places: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The rows whose keys are those of a row of `places`."""
    index = pd.MultiIndex.from_frame(table[keys])
    return table[index.isin(pd.MultiIndex.from_frame(places[keys]))]
