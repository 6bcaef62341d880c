"""Tables of the page about nodes that differ: per-node figures, slowed nodes, crashes."""

from __future__ import annotations

import math
from typing import Any

from storewise.analysis.common.engines import varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import binary, number, seconds
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import marks, with_trials
from storewise.report.tables.cells import Cell, Table, level_cell, number_cell, text_cell

_TIMES = ("service_mean", "service_p50", "service_p95", "service_p99", "response_p95")
_LOAD = (
    ("store_cpu", "server, cores", number),
    ("cpu_user", "host's user, %", number),
    ("cpu_system", "system, %", number),
    ("cpu_iowait", "iowait, %", number),
    ("disk_busy", "disk busy, %", number),
    ("disk_read", "disk read per s", binary),
    ("disk_write", "disk write per s", binary),
    ("network_received", "received per s", binary),
    ("network_sent", "sent per s", binary),
)


def tables_of_owners(tables: Tables) -> list[Table]:
    """Those that the study has rows for."""
    made = [_per_node(tables), _slowdown(tables), _crashes(tables)]
    return [table for table in made if table.rows]


def _per_node(tables: Tables) -> Table:
    several = tables.per_node.groupby(["trial", "phase", "step"])["node"].transform("nunique")
    found = tables.per_node[several > 1]
    slowed = bool((found["slowed"] != "").any())
    rows = []
    for row in records(found):
        cells = [text_cell(row[k]) for k in ("trial", "phase")]
        cells += [number_cell(row["step"], f"{row['step']:g}")]
        cells += [text_cell(row[k]) for k in ("operation", "node", "host")]
        cells += [text_cell(row["slowed"] or None)] if slowed else []
        cells += [number_cell(row["operations"], f"{row['operations']:,.0f}")]
        cells += [number_cell(row["errors"], f"{row['errors']:,.0f}")]
        cells += [_figure(row[name], seconds) for name in _TIMES]
        cells += [_figure(row["over_limit"], lambda share: f"{share:.2%}")]
        cells += [_figure(row[name], show) for name, _, show in _LOAD]
        rows.append(cells)
    limits = sorted(set(found["limit_ms"]))
    limit = f"{limits[0]:g} ms" if len(limits) == 1 else "the limit"
    heads = ["trial", "phase", "step", "operation", "node", "host"]
    heads += [*(["slowed"] if slowed else []), "operations", "errors"]
    heads += [name.replace("_", " ") for name in _TIMES]
    heads += [f"over {limit}", *(head for _, head, _ in _LOAD)]
    caption = "Nodes as their clients saw them, and what they and their hosts did meanwhile"
    return Table("per-node", caption, heads, rows, marks("per_node", found))


def _slowdown(tables: Tables) -> Table:
    factors = tables.results.factors
    names = ["engine", *varying_factors(tables.slowdown, factors)]
    rows = [
        [
            text_cell(row["phase"]),
            *(level_cell(name, row[name]) for name in names),
            number_cell(row["slowed_nodes"], f"{row['slowed_nodes']:g}"),
            text_cell(row["slow"] or "none"),
            number_cell(row["mean"]),
            _interval(row),
            _figure(row["relative"], lambda share: f"{share:.0%}"),
        ]
        for row in records(tables.slowdown)
    ]
    heads = ["phase", *names, "slowed nodes", "how", "operations/s", "95 % interval"]
    caption = "Throughput with slowed nodes"
    origins = marks("slowdown", tables.slowdown)
    return Table("slowdown", caption, [*heads, "of none slowed"], rows, origins)


def _crashes(tables: Tables) -> Table:
    found = with_trials(tables.crashes, tables.trials[["trial", "repeat", *tables.results.factors]])
    names = ["engine", *varying_factors(found, tables.results.factors)]
    if "consistency" in found and "consistency" not in names:
        names.append("consistency")
    rows = [
        [
            text_cell(row["phase"]),
            *(level_cell(name, row[name]) for name in names),
            text_cell(row["node"]),
            _figure(row["after"], seconds),
            _figure(row["recovery_time"], seconds),
            _figure(row["unavailable_time"], seconds),
            _figure(row["unavailable_time_node"], seconds),
            number_cell(row["errors"], f"{row['errors']:,.0f}"),
            _figure(row["lost_documents"], lambda lost: f"{lost:,.0f}"),
        ]
        for row in records(found)
    ]
    heads = ["phase", *names, "killed", "after", "recovery", "unavailable", "the node's documents"]
    return Table(
        "crashes",
        "Servers killed under load: time to the first answer, longest time without a success, and "
        "acknowledged documents lost",
        [*heads, "failed operations", "lost documents"],
        rows,
        marks("crashes", found),
    )


def _figure(value: Any, show: Any) -> Cell:
    return number_cell(math.nan) if missing(value) else number_cell(float(value), show(value))


def _interval(row: dict[str, Any]) -> Cell:
    if missing(row["low"]) or row["resampled"] == "none":
        return number_cell(None)
    return number_cell(row["low"], f"{number(row['low'])} to {number(row['high'])}")
