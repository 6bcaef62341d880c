"""Which tables the page shows, with which columns."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.judge.comparable_steps import (
    LOAD_RATES,
    at_steps,
    headline_rates,
    set_rates,
)
from storewise.analysis.model.tables import Tables
from storewise.report.tables import SETTING, Column, Spec, columns

_SESSION = "session"


def _rates(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rate of each phase, and of loads that without parsing; `null` stores nothing."""
    stores = tables.rates[tables.rates["engine"] != CEILING]
    return pd.concat([headline_rates(tables, stores), stores[stores["measure"] == LOAD_RATES[1]]])


def _times(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Service times; response times where a rate was set: else these are the same."""
    times = tables.latency_summary
    waits = at_steps(times.astype({"phase": str}), set_rates(tables))
    return times[(times["time"] == "service") | waits]


def _sizes(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return tables.storage_summary


def _steps(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return tables.steps


def _speed_ups(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    wanted = (table["measure"] == "documents_per_s") & (table["level"] > table["base"])
    return table[wanted & (table["engine"] != CEILING)]


def _of_hosts(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return table[(table["node"] == "") & (table["phase"] != _SESSION)]


def _of_nodes(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return table[(table["node"] != "") & (table["phase"] != _SESSION)]


def _several_nodes(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    nodes = table.groupby(["trial", "phase", "step"], observed=True)["node"].transform("nunique")
    return table[nodes > 1]


def _of_stores(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return table[table["engine"] != CEILING]


def _with_law(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    return table[table["lambda"].notna()]


_FIGURE = [Column("mean", "mean, 95 % interval"), Column("n", "repeats", "1")]
_SERVICE = {f"service_{p}": f"service {p}" for p in ("mean", "p50", "p95", "p99")}
_RESPONSE = {f"response_{p}": f"response {p}" for p in ("mean", "p50", "p95", "p99")}
_HOST = [
    *columns(cpu_user="CPU user", cpu_system="CPU system", cpu_iowait="CPU iowait", unit="%"),
    *columns(memory_used="memory used", unit="B"),
    *columns(disk_write="disk write", disk_read="disk read", unit="B/s"),
    *columns(disk_busy="disk busy", unit="%"),
    *columns(network_received="received", unit="B/s"),
]

VERDICT = Spec(
    "verdict-table",
    "verdict",
    "Stores by criteria, the best first; the interval is that of the ratio to the best store. Rank "
    "1: best or not told apart; 2: behind",
    [
        *columns(title="criterion", choice="store", configuration="deployment"),
        Column("mean", "figure, 95 % interval"),
        *columns("rank", unit="1"),
        *columns("weight", unit="share"),
        *columns("about", "note"),
    ],
)

MEASURED = (
    Spec(
        "rates",
        "summary",
        "Rates, mean over repeats. SSEARCH files store nothing: their load is parsing",
        [*columns("measure"), *_FIGURE],
        _rates,
        ["phase", SETTING],
    ),
    Spec(
        "latency",
        "summary",
        "Times of one operation: means over repeats of each trial's percentiles; a dash: fewer "
        "than ten operations of a trial lie above it",
        columns("p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", unit="s"),
        _times,
        ["phase", SETTING, "operation", "time"],
        wide="percentile",
    ),
    Spec(
        "questions",
        "questions",
        "Questions: who answered them, and how fast. SSEARCH files are read by the client",
        [
            *columns("answered_by", "by", indexes="index that may serve it"),
            *columns("median", unit="s"),
            *columns(operations="asked", unit="count"),
        ],
        keys=["question", SETTING],
    ),
    Spec(
        "breakeven",
        "breakeven",
        "Number of questions from which on loading pays against reading the files again. The time "
        "of a question is its mean over the clients that asked at once; the load is with the start "
        "of servers",
        [
            *columns(
                "load", files_question="of the files", store_question="of the store", unit="s"
            ),
            *columns(mean="pays from, 95 % interval", unit="times"),
        ],
        keys=["phase", "operation", SETTING],
    ),
    Spec(
        "plans",
        "plan_summary",
        "Readings above a value: times and plans",
        [
            *columns("threshold", unit="1"),
            *columns(found="readings found", unit="count"),
            *columns(mean="mean time", unit="s"),
            *columns("uses_index", "plan"),
        ],
        keys=["query", SETTING, "selectivity_pct"],
    ),
    Spec(
        "storage",
        "summary",
        "Storage after the load: what the data take, and of servers their whole directories",
        [
            *columns(store_bytes="size", unit="B"),
            *columns("bytes_per_document", unit="1"),
            *columns(share_of_input="of the inputs on disk", unit="share"),
            *columns(share_of_raw_input="of the inputs decompressed", unit="share"),
            *columns(node_bytes="whole directories of servers", unit="B"),
            *columns(node_bytes_per_document="these per document", unit="1"),
            *columns("files", inodes="files and directories", unit="count"),
            *columns(metadata_operations="metadata operations, at least", unit="count"),
        ],
        _sizes,
        [SETTING],
        wide="measure",
    ),
    Spec(
        "scaling",
        "scaling",
        "Speed-up and efficiency",
        [
            *columns("factor"),
            *columns(base="from", level="to", unit="1"),
            *columns("quantity"),
            _FIGURE[0],
        ],
        _speed_ups,
        ["phase", SETTING],
    ),
    Spec(
        "steps",
        "summary",
        "Steps: rates and times, means over repeats",
        [
            *columns(operations_per_s="operations/s, 95 % interval", unit="1"),
            *columns("served", unit="share"),
            *columns("errors", unit="count"),
            *columns(unit="s", **_RESPONSE, **_SERVICE),
        ],
        _steps,
        ["phase", SETTING, "clients", "rate", "planned", "other", "operation"],
        wide="measure",
    ),
    Spec(
        "searches",
        "searches",
        "Highest rates within a limit",
        [
            *columns("clients", "percentile", limit_ms="limit, ms", unit="1"),
            *columns("time"),
            *columns(rate="highest operations/s", unit="1"),
            *columns(verified="met twice", bounded="a higher rate failed"),
        ],
        keys=["trial", "phase"],
    ),
    Spec(
        "load",
        "host",
        "Load of clients and their hosts: mean and maximum",
        [
            *columns(client_cpu="busiest client, cores", unit="1"),
            *columns(client_rss="memory of clients", unit="B"),
            *columns(router_cpu="routers, cores", unit="1"),
            *_HOST,
        ],
        _of_hosts,
        ["trial", "phase", "step", "host"],
        wide="metric",
        note="max",
    ),
    Spec(
        "node-load",
        "host",
        "Load of servers: mean and maximum",
        [
            *columns(store_cpu="server, cores", unit="1"),
            *columns(store_rss="memory of the server", store_bytes="data directory", unit="B"),
        ],
        _of_nodes,
        ["trial", "phase", "step", "node", "host"],
        wide="metric",
        note="max",
    ),
    Spec(
        "per-node",
        "per_node",
        "Nodes as their clients saw them, and what they and their hosts did meanwhile",
        [
            *columns("slowed"),
            *columns("operations", "errors", unit="count"),
            *columns("share", over_limit="over the limit", unit="share"),
            *columns(unit="s", **_SERVICE),
            *columns(store_cpu="server, cores", unit="1"),
            *_HOST,
        ],
        _several_nodes,
        ["trial", "phase", "step", "operation", "node", "host"],
    ),
    Spec(
        "slowdown",
        "slowdown",
        "Throughput with slowed nodes",
        [*columns(slow="how"), _FIGURE[0], *columns(relative="of none slowed", unit="share")],
        keys=["phase", SETTING, "slowed_nodes"],
    ),
    Spec(
        "crashes",
        "crashes",
        "Servers killed under load: time to the first answer, longest time without a success, and "
        "acknowledged documents lost",
        [
            *columns("after", recovery_time="recovery", unavailable_time="unavailable", unit="s"),
            *columns(unavailable_time_node="the node's documents", unit="s"),
            *columns(errors="failed operations", lost_documents="lost documents", unit="count"),
        ],
        keys=["trial", "phase", "step", "node"],
    ),
    Spec(
        "verification",
        "verification",
        "Verification: documents by kind",
        columns("expected", "counted", "checked", "lost", "wrong", unit="count"),
        keys=["trial", "kind"],
    ),
)

STATISTICS = (
    Spec(
        "variance",
        "variance",
        "Analysis of variance: what each factor explains of a measure",
        [
            *columns("engines", "term"),
            *columns("df", f="F", unit="1"),
            *columns("p", unit="p"),
            *columns(eta_sq_partial="partial η²", omega_sq="ω²", n="n", unit="1"),
        ],
        keys=["phase", "step", "measure"],
    ),
    Spec(
        "pairs",
        "pairs",
        "Pairs of levels: Tukey's honestly significant differences, simultaneous 95 % intervals",
        [
            *columns("engines", "factor", a="one", b="the other"),
            *columns("ratio", unit="1"),
            *columns(p_adj="p, adjusted", unit="p"),
            *columns(reject="differ"),
        ],
        keys=["phase", "step", "measure"],
    ),
    Spec(
        "usl",
        "usl",
        "Universal Scalability Law: contention (sigma) and coherency (kappa) of rates over nodes, "
        "workers or threads",
        [
            *columns("factor"),
            *columns("lambda", "sigma", "kappa", "peak", "peak_rate", r2="R²", unit="1"),
            *columns("flags"),
        ],
        _with_law,
        ["phase", "step", "measure", "engine"],
    ),
    Spec(
        "costs",
        "costs",
        "Cost: hours of hosts, and money where the study has prices",
        [*_FIGURE, *columns("note")],
        _of_stores,
        ["phase", SETTING, "measure"],
    ),
    Spec(
        "capacity",
        "capacity",
        "Capacity: what the full corpus would need, from the measured scaling",
        [
            *columns("over", "model"),
            *columns("count", "hours", "needed", "needed_hours", unit="1"),
            *columns("bytes", unit="B"),
            *columns("limits"),
        ],
        keys=["phase", SETTING],
    ),
    Spec(
        "limits",
        "limits",
        "What limited each trial",
        columns("limited_by", "also", "evidence", "host"),
        keys=["trial", "phase", "step"],
    ),
)

CANARY = Spec(
    "canary",
    "canary",
    "How fast the machine was before each trial",
    [
        *columns(canary_cpu="digests per s", unit="1"),
        *columns(canary_disk_write="disk write", canary_disk_read="disk read", unit="B/s"),
    ],
    keys=["trial", "taken_by", "host"],
    wide="metric",
    value="value",
)

SERVERS = Spec(
    "servers",
    "nodes",
    "Servers: where they ran, what guarded their ports, and which of these were open to anybody",
    [
        *columns("role", "host", "address", "version", "guard", "ports", open_ports="OPEN PORTS"),
        *columns("threads", unit="1"),
        *columns(queue_time="queue", ready_time="start", stop_time="stop", unit="s"),
        *columns(node_bytes="directory", unit="B"),
        *columns(kept="kept: remove it by hand"),
    ],
    keys=["trial", "node"],
)

PUBLISHED = Spec(
    "published-table",
    "reference_agreement",
    "Published figures and those of this study: slopes of curves with both axes in logarithms "
    "(1: proportional, 0: flat), where each is best, and ratios of two systems",
    [
        *columns("reference", title="figure", quantity="what"),
        *columns("of", "setting", "at"),
        *columns("published", measured="here", unit="1"),
        *columns("agree"),
    ],
)
