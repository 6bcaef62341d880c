"""The tables of the page and their columns."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.judge.comparable_steps import (
    LOAD_RATES,
    at_steps,
    headline_rates,
    set_rates,
)
from storewise.analysis.model.columns import COSTS, EFFICIENCY, HIGHEST, PAYS_FROM, SLOWED
from storewise.analysis.model.tables import Tables
from storewise.report.tables import SETTING, Spec


def _rates(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rate of each phase, and what follows from rates; `null` stores nothing."""
    more = table["measure"].isin([LOAD_RATES[1], EFFICIENCY, PAYS_FROM])
    shown = pd.concat([headline_rates(tables, tables.rates), table[more]])
    return shown[shown["engine"] != CEILING]


def _times(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Service times; response times where a rate was set: else these are the same."""
    times = tables.latency_summary
    waits = at_steps(times.astype({"phase": str}), set_rates(tables))
    return times[(times["time"] == "service") | waits]


def _questions(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The questions without a selectivity, once for each setting: repeats have the same."""
    factors = list(tables.results.factors)
    rows = table[table["selectivity_pct"].isna()]
    rows = rows.join(tables.trials.set_index("trial")[factors], on="trial")
    return rows.drop_duplicates([*factors, "phase", "step", "query"])


def _several_nodes(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    nodes = table.groupby(["trial", "phase", "step"], observed=True)["node"].transform("nunique")
    return table[nodes > 1]


_SERVICE = ("service_mean", "service_p50", "service_p95", "service_p99")
_RESPONSE = ("response_mean", "response_p50", "response_p95", "response_p99")
_CPU = ("cpu_user", "cpu_system", "cpu_iowait")
_HOST = (*_CPU, "memory_used", "disk_write", "disk_read", "disk_busy", "network_received")

VERDICT = Spec(
    "verdict-table",
    "Stores by criteria, the best first; the interval is that of the ratio to the best store. Rank "
    "1: best or not told apart; 2: worse",
    ("title", "choice", "configuration", "mean", "rank", "weight", "about"),
    csv="verdict",
)

TABLES = (
    Spec(
        "rates",
        "Rates, mean over repeats (plain files store nothing: their load is parsing); "
        "efficiency: the speed-up over the ratio of the levels; pays from: how many questions it "
        "takes until loading, with the start of servers, pays against reading the files again, by "
        "the mean time of a question over the clients that asked at once",
        ("mean", "n"),
        ("phase", "measure", SETTING, "operation", "other"),
        _rates,
        "summary",
    ),
    Spec(
        "latency",
        "Times of one operation: means over repeats of each trial's percentiles; a dash: fewer "
        "than ten operations of a trial lie above it",
        ("p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"),
        ("phase", SETTING, "operation", "time"),
        _times,
        "summary",
        wide="percentile",
    ),
    Spec(
        "questions",
        "Questions: who answered them, by which call, and whether the store says that it takes an "
        "index. Clients read plain files",
        ("answered_by", "verb", "uses_index"),
        ("phase", "query", SETTING),
        _questions,
        "plans",
    ),
    Spec(
        "plans",
        "Readings above a value: times and plans",
        ("threshold", "found", "seconds", "uses_index", "plan"),
        ("query", "trial", "step", "selectivity_pct"),
        lambda table, _: table[table["selectivity_pct"].notna()],
    ),
    Spec(
        "storage",
        "Storage after the load: what the data take, and of servers their whole directories",
        (
            *("store_bytes", "bytes_per_document", "share_of_input", "share_of_raw_input"),
            *("node_bytes", "node_bytes_per_document", "files", "inodes"),
        ),
        (SETTING,),
        lambda _, tables: tables.storage_summary,
        "summary",
        wide="measure",
    ),
    Spec(
        "steps",
        "Steps: rates and times, means over repeats",
        ("operations_per_s", "served", "errors", *_RESPONSE, *_SERVICE),
        ("phase", SETTING, "clients", "rate", "planned", "other", "operation"),
        lambda _, tables: tables.steps,
        "summary",
        wide="measure",
    ),
    Spec(
        "searches",
        "Highest rates within a limit; trials of which no rate met it are left out",
        ("mean", "n"),
        ("phase", SETTING, "clients", "other"),
        lambda table, _: table[table["measure"] == HIGHEST],
        "summary",
    ),
    Spec(
        "load",
        "Load of clients, servers and their hosts: mean and maximum",
        (
            *("client_cpu", "client_rss", "router_cpu", "store_cpu", "store_rss", "store_bytes"),
            *_HOST,
        ),
        ("trial", "phase", "step", "node", "host"),
        lambda table, _: table[table["phase"] != "session"],
        "host",
        wide="metric",
    ),
    Spec(
        "per-node",
        "Nodes: operations and latency as clients saw them, and load of node and host",
        ("slowed", "operations", "errors", "share", "over_limit", *_SERVICE, "store_cpu", *_HOST),
        ("trial", "phase", "step", "operation", "node", "host"),
        _several_nodes,
        "per_node",
    ),
    Spec(
        "slowdown",
        "Rate with slowed nodes over that without",
        ("mean", "n"),
        ("phase", SETTING, "other"),
        lambda table, _: table[table["measure"] == SLOWED],
        "summary",
    ),
    Spec(
        "crashes",
        "Servers killed under load: time to the first answer, longest time without a success (of "
        "all documents, and of the node's), and acknowledged documents lost",
        (
            *("after", "recovery_time", "unavailable_time", "unavailable_time_node"),
            *("errors", "lost_documents"),
        ),
        ("trial", "phase", "step", "node"),
    ),
    Spec(
        "verification",
        "Verification: documents by kind",
        ("expected", "counted", "checked", "lost", "wrong"),
        ("trial", "kind"),
    ),
    Spec(
        "variance",
        "Analysis of variance: what each factor explains of a measure",
        ("engines", "term", "df", "f", "p", "eta_sq_partial", "omega_sq", "n"),
        ("phase", "step", "measure"),
    ),
    Spec(
        "pairs",
        "Pairs of levels: Tukey's honestly significant differences, simultaneous 95 % intervals",
        ("engines", "factor", "a", "b", "ratio", "p_adj", "reject"),
        ("phase", "step", "measure"),
    ),
    Spec(
        "usl",
        "Universal Scalability Law: contention (sigma) and coherency (kappa) of rates over nodes, "
        "workers or threads",
        ("factor", "lambda", "sigma", "kappa", "peak", "peak_rate", "r2", "flags"),
        ("phase", "step", "measure", "engine"),
        lambda table, _: table[table["lambda"].notna()],
    ),
    Spec(
        "costs",
        "Cost: hours of hosts, and money where the study has prices. What the full corpus would "
        "take is extrapolated: at the rate and the size per document that were measured",
        ("mean", "n"),
        ("phase", SETTING, "measure"),
        lambda table, _: table[table["measure"].isin(COSTS)],
        "summary",
    ),
    Spec(
        "limits",
        "What limited each trial",
        ("limited_by", "also", "evidence", "host"),
        ("trial", "phase", "step"),
    ),
)

HOSTS = (
    Spec(
        "canary",
        "Speed of the hosts before each trial",
        ("canary_cpu", "canary_disk_write", "canary_disk_read"),
        ("trial", "phase", "host"),
        lambda table, _: table[table["metric"].str.startswith("canary_")],
        "host",
        wide="metric",
    ),
    Spec(
        "servers",
        "Servers: hosts, authentication of their ports, and ports without it",
        (
            *("role", "host", "address", "version", "guard", "ports", "open_ports", "threads"),
            *("queue_time", "ready_time", "stop_time", "node_bytes", "kept"),
        ),
        ("trial", "node"),
        csv="nodes",
    ),
)

PUBLISHED = Spec(
    "published-table",
    "Published figures and those of this study: slopes of curves with both axes in logarithms "
    "(1: proportional, 0: flat), where each is best, and ratios of two systems",
    ("reference", "title", "quantity", "of", "setting", "at", "published", "measured", "agree"),
    csv="reference_agreement",
)
