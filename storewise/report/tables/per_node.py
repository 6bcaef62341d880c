"""Tables of the page about nodes that differ: per-node figures, slowed nodes, crashes."""

from __future__ import annotations

from storewise.analysis.common.engines import varying_factors
from storewise.analysis.common.text import number, seconds
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import with_trials
from storewise.report.tables import cells
from storewise.report.tables.cells import Column, Show, Table

#: What is shown; the source of a row has all else.
_TIMES = ("service_p50", "service_p95", "service_p99")
_LOAD: tuple[tuple[Show, dict[str, str]], ...] = (
    (number, {"store_cpu": "server, cores", "cpu_user": "host's user, %"}),
    (number, {"cpu_iowait": "iowait, %", "disk_busy": "disk busy, %"}),
)


def node_tables(tables: Tables) -> list[Table]:
    """Those that the study has rows for."""
    return [t for t in (_per_node(tables), _slowdown(tables), _crashes(tables)) if t.rows]


def _per_node(tables: Tables) -> Table:
    several = tables.per_node.groupby(["trial", "phase", "step"])["node"].transform("nunique")
    nodes = tables.per_node[several > 1]
    slowed = bool((nodes["slowed"] != "").any())
    limits = sorted(set(nodes["limit_ms"]))
    limit = f"{limits[0]:g} ms" if len(limits) == 1 else "the limit"
    return cells.table_of(
        "per-node",
        "Nodes as their clients saw them, and what they and their hosts did meanwhile",
        nodes,
        "per_node",
        [
            *cells.texts("trial", "phase"),
            *cells.figures(cells.plain, "step"),
            *cells.texts("operation", "node", "host"),
            *(
                [Column("slowed", lambda row: cells.text_cell(row["slowed"] or None))]
                if slowed
                else []
            ),
            *cells.figures(cells.whole, "operations", "errors"),
            *cells.figures(seconds, **{name: name.replace("_", " ") for name in _TIMES}),
            *cells.figures("{:.2%}".format, over_limit=f"over {limit}"),
            *(column for show, heads in _LOAD for column in cells.figures(show, **heads)),
        ],
    )


def _slowdown(tables: Tables) -> Table:
    columns = [
        *cells.levels(
            ["phase", "engine", *varying_factors(tables.slowdown, tables.results.factors)]
        ),
        *cells.figures(cells.plain, slowed_nodes="slowed nodes"),
        Column("how", lambda row: cells.text_cell(row["slow"] or "none")),
        cells.mean("operations/s"),
        *cells.figures(cells.percent, relative="of none slowed"),
    ]
    caption = "Throughput with slowed nodes"
    return cells.table_of("slowdown", caption, tables.slowdown, "slowdown", columns)


def _crashes(tables: Tables) -> Table:
    trials = tables.trials[["trial", "repeat", *tables.results.factors]]
    crashes = with_trials(tables.crashes, trials)
    names = [name for name in cells.row_keys(crashes, tables) if name != "step"]
    if "consistency" in crashes and "consistency" not in names:
        names.append("consistency")
    return cells.table_of(
        "crashes",
        "Servers killed under load: time to the first answer, longest time without a success, and "
        "acknowledged documents lost",
        crashes,
        "crashes",
        [
            *cells.levels(["phase", *names]),
            *cells.texts("node"),
            *cells.figures(
                seconds,
                "after",
                recovery_time="recovery",
                unavailable_time="unavailable",
                unavailable_time_node="the node's documents",
            ),
            *cells.figures(
                cells.whole, errors="failed operations", lost_documents="lost documents"
            ),
        ],
    )
