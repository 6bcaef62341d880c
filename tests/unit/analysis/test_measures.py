"""Measures of trials by hand: storage, hosts, steps, nodes, sessions and questions."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.results import synthetic
from support.results.tables import part, results_of, samples_of

from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.judge.client_bound import client_bound
from storewise.analysis.measure import host_load as host
from storewise.analysis.measure.derived import highest_rates
from storewise.analysis.measure.measures import COLUMNS, measures, with_steps
from storewise.analysis.measure.per_node import crashes, per_node, slowed_rates, step_conditions
from storewise.analysis.measure.query_plans import plans
from storewise.analysis.measure.sessions import NODE_COLUMNS, nodes, sessions
from storewise.analysis.measure.steps import step_parameters
from storewise.analysis.measure.storage import node_storage, storage
from storewise.analysis.measure.summary import summarise
from storewise.analysis.measure.throughput import throughput
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.metrics.hdr import SparseHistogram, bucket_indexes
from storewise.metrics.schema import Sample


def test_storage_by_hand():
    rows = [
        *loaded_by(0, 1),
        # Worker 0 tells its size at the end, by process; worker 1 only by the second.
        Sample("write", "store_bytes", 5000, "B", second=0, worker=0),
        Sample("write", "store_bytes", 3000, "B", worker=0, process=0),
        Sample("write", "store_bytes", 1000, "B", worker=0, process=1),
        Sample("write", "store_bytes", 100, "B", second=0, worker=1),
        Sample("write", "store_bytes", 2000, "B", second=1, worker=1),
    ]
    table = storage(samples_of(rows), InputTotals(1, 12_000, 200))
    expected = {"store_bytes": 6000, "bytes_per_document": 30, "share_of_input": 0.5}
    # 100 bytes of text a document.
    assert values_of(table) == {**expected, "share_of_raw_input": 0.3}


KINDS = ("store_files", "store_inodes")


def inodes_of(worker, *values):
    """The files of a loading worker."""
    return [
        Sample("write", name, n, "1", worker=worker) for name, n in zip(KINDS, values, strict=True)
    ]


def loaded_by(*workers):
    rows = []
    for worker in workers:
        rows += synthetic.counts("write", "insert", [(1, 100)], worker=worker)
        rows += synthetic.times("write", 2.0, worker=worker)
    return rows


def values_of(table):
    return dict(zip(table["measure"], table["value"], strict=True))


def test_files_by_hand():
    loaded, first = loaded_by(0, 1), inodes_of(0, 3, 5)
    table = storage(samples_of([*loaded, *first, *inodes_of(1, 4, 7)]), None)
    assert values_of(table) == {"files": 7, "inodes": 12}
    # A part of the workers says nothing of all files.
    assert storage(samples_of([*loaded, *first]), None).empty
    # Files of servers are those of all nodes.
    samples = samples_of([*loaded_by(0), Sample("write", "store_bytes", 50, "B", worker=0)])
    stored = storage(samples, None)
    nodes = pd.DataFrame(columns=NODE_COLUMNS, index=range(2)).assign(trial="t", node_bytes=100.0)
    for name, values in zip(KINDS, [(3, 4), (5, 6)], strict=True):
        nodes[name] = values
    table = node_storage(sessions(nodes, samples), samples, stored, {})
    expected = {"node_bytes": 200, "files": 7, "inodes": 11}
    # 100 documents of half a byte; 150 bytes are no data, a tenth of the directories of 2,700.
    assert values_of(table) == {**expected, "node_bytes_per_document": 2, "holds_from": 2700}
    (least,) = node_storage(sessions(nodes, samples), samples, stored, {"t": 3}).query(
        "measure == 'holds_from'"
    )["value"]
    assert least == 9 * 50 / (3 * 0.5)
    nodes["store_inodes"] = [5, np.nan]
    table = node_storage(sessions(nodes, samples), samples, stored.iloc[:0], {})
    assert set(table["measure"]) == {"node_bytes", "files"}


def test_host_load_by_hand():
    rows = [
        *synthetic.times("read", 2.5),
        *(
            Sample("read", metric, value, unit, second=second)
            for second, (length, wait) in enumerate([(1.0, 10.0), (1.0, 20.0), (0.5, 80.0)])
            for metric, value, unit in (("sample_length", length, "s"), ("cpu_iowait", wait, "%"))
        ),
        *(
            Sample("read", "client_cpu", cpu, "s", second=second, worker=0, process=process)
            for process, seconds in enumerate([(0.5, 0.9, 0.1), (1.0, 1.0, 0.5)])
            for second, cpu in enumerate(seconds)
        ),
    ]
    samples = samples_of(rows)
    table = host.host_load(samples).set_index("metric")
    assert table.loc["cpu_iowait", "mean"] == pytest.approx((10 + 20 + 40) / 2.5)
    assert table.loc["cpu_iowait", "max"] == 80
    # The busiest process: 2.5 s of CPU in 2.5 s.
    assert table.loc["client_cpu", "mean"] == pytest.approx(1.0)


def test_a_client_is_the_limit_near_the_highest_of_its_own_ceilings():
    rows = [
        ("near", "sqlite", 1, "durable", None, 800.0, 1.0),
        ("below", "duckdb", 1, "durable", None, 799.0, None),
        ("wider", "sqlite", 2, "durable", None, 900.0, None),
        ("again", "files", 1, "durable", None, 1000.0, None),
        ("busy", "postgres", 1, "durable", 1, 10.0, 0.9),
        ("open", "postgres", 1, "relaxed", 2, 1000.0, 0.89),
        ("server", "mongodb", 1, "durable", 2, 850.0, None),
    ]
    names = ["trial", "engine", "workers", "consistency", "nodes", "value", "mean"]
    table = pd.DataFrame(rows, columns=names)
    place = {"phase": "read", "step": 0, "measure": "operations_per_s"}
    rates = table[["trial", "value"]].assign(**place)
    # Between the store's calls; that of an open loop, and of no store, says nothing.
    shares = [("wider", 0.2), ("below", 0.09), ("open", 0.3), ("again", 0.9)]
    own = pd.DataFrame(shares, columns=["trial", "value"])
    rates = pd.concat([rates, own.assign(**{**place, "measure": "client_share"})])
    # Of the engine without a store at any level of consistency; with four workers it is faster.
    ceiling = [("durable", 1, 600.0), ("relaxed", 1, 1000.0), ("relaxed", 4, 5000.0)]
    summary = pd.DataFrame(ceiling, columns=["consistency", "workers", "mean"])
    summary = summary.assign(engine="null", nodes=math.nan, **place)
    load = table[["trial", "mean"]].dropna().assign(phase="read", step=0, metric="client_cpu")
    trials = table[names[:5]]
    tables = SimpleNamespace(
        host=load,
        throughput=rates.assign(rate=rates["trial"].map({"open": 1000.0})),
        rates=summary,
        trials=trials,
        results=results_of(trials),
    )
    bound = client_bound(tables)
    assert dict(zip(bound["trial"], bound["reason"], strict=True)) == {
        "busy": "a client process used 0.90 of a core",
        "server": "it reached 85% of the client's ceiling (no store)",
        "near": "it reached 80% of the client's ceiling (no store)",
        "wider": "20% of the time was the client's own work",
    }


def test_steps_by_hand():
    # A step of 8 s with two workers, and one of 2 s: gets and puts.
    rows = []
    for worker, wall in ((0, 8.0), (1, 6.5)):
        of = {"worker": worker, "process": 0}
        for operation, n in (("get", 100), ("put", 10)):
            rows += synthetic.counts("read", operation, [(n, n)] * int(wall), warmup=2, **of)
        rows += synthetic.times("read", wall, worker=worker)
        rows.append(Sample("read", "intended_operations", 900.0, "1", **of))
        rows.append(Sample("read", "errors", 3.0, "1", operation="put", **of))
    short = [*synthetic.counts("read", "get", [(60, 60), (40, 40)]), *synthetic.times("read", 2.0)]
    samples = samples_of([*rows, *(row._replace(step=1) for row in short)])
    steps = [{"clients": 4, "rate": 300.0}, {"clients": 8}]
    parameters = step_parameters([part("t", "read", steps=steps)])
    every = measures(
        samples,
        throughput(samples),
        {},
        storage(samples, None),
        sessions(nodes([], samples), samples),
        {},
    )
    table = with_steps(every, parameters)
    values = table.set_index(["step", "operation", "measure"])["value"].to_dict()
    # Steady are the seconds 2 to 5, in which both workers were at work.
    rates = [values[0, name, "operations_per_s"] for name in ("get", "put", ALL)]
    assert rates == pytest.approx([200, 20, 220])
    assert (values[0, ALL, "duration"], values[0, ALL, "errors"]) == (8.0, 6.0)
    assert (values[0, "get", "errors"], values[0, "put", "errors"]) == (0.0, 6.0)
    # 14 seconds of 110 operations, of 1,800 that were meant to begin.
    assert values[0, ALL, "served"] == pytest.approx(14 * 110 / 1800)
    assert values[1, ALL, "operations_per_s"] == pytest.approx(50)
    assert (1, ALL, "served") not in values
    assert set(zip(table["step"], table["clients"], strict=True)) == {(0, 4.0), (1, 8.0)}


def test_times_are_told_of_each_operation_and_of_all_together():
    rng = np.random.default_rng(1)
    drawn = {"get": rng.lognormal(15, 1, 99_900), "put": rng.lognormal(17, 1, 100), "scan": []}
    drawn = {name: np.rint(times).astype(np.int64) for name, times in drawn.items()}
    histograms = {
        ("t", "read", 0, name, "", "service"): SparseHistogram(
            *np.unique(bucket_indexes(times), return_counts=True)
        )
        for name, times in drawn.items()
    }
    samples = samples_of(synthetic.times("read", 2.0))
    formed = pd.DataFrame({"trial": list("tuv"), "other": 1.0, "formed_time": [9.0, 4, None]})
    formed["queue_time"] = [2.0, None, None]
    none = pd.DataFrame(columns=["trial", "phase", "step", "operation", "measure", "value", "unit"])
    rates = pd.DataFrame(
        [("t", "read", 0, "operations_per_s", 9.0, "1/s")], columns=none.columns.drop("operation")
    )
    table = measures(samples, rates, histograms, none, formed, {})
    told = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9, "p99.99": 99.99, "max": 100}
    # Ten of 100,000 are above the last of them, ten of 100 above the second.
    for name, times, least in (
        ("get", drawn["get"], 99.9),
        ("put", drawn["put"], 90),
        (ALL, np.concatenate(list(drawn.values())), 99.99),
    ):
        rows = table[(table["phase"] == "read") & (table["unit"] == "s")]
        rows = rows[rows["operation"] == name]
        assert set(rows["count"]) == {len(times)}
        values = dict(zip(rows["measure"], rows["value"] * 1e9, strict=True))
        assert values == pytest.approx(
            {
                f"service_{word}": np.percentile(times, at, method="inverted_cdf")
                for word, at in told.items()
                if at <= least or at == 100
            }
            | {"service_mean": times.mean()},
            rel=2e-3,
        )
    (rate,) = table[table["measure"] == "operations_per_s"].to_dict("records")
    assert (rate["count"], rate["operation"]) == (100_000, ALL)
    waits = table[table["phase"] == "session"]
    assert waits[["trial", "measure", "value"]].to_numpy().tolist() == [
        *(["t", "formed_time", 9], ["t", "queue_time", 2], ["u", "formed_time", 4]),
    ]
    assert set(waits["unit"]) == {"s"} and set(waits["step"]) == {0}


def test_searches_are_those_of_the_first_worker_and_answers_are_averaged():
    def searched(trial, rate, worker=0):
        tried = [{"rate": 1}, {"rate": 2}]
        search = {"first_step": 1, "percentile": 99.0, "limit_ms": 5.0, "time": "response"}
        search |= {"tried": tried, "rate": rate, "verified": True, "bounded": False}
        steps = [{"clients": 1}, {"clients": 6}]
        return part(trial, "read", worker, steps=steps, searches=[search])

    parts = [searched("a", 100.0), searched("a", 999.0, 1), searched("b", 400.0)]
    trials = pd.DataFrame({"trial": list("abc"), "engine": ["sqlite", "sqlite", "duckdb"]})
    results = results_of(trials, [*parts, searched("c", None), part("c", "write")])
    none = pd.DataFrame(columns=[*COLUMNS, *PARAMETERS, OTHER])
    (answer,) = summarise(highest_rates(none, results), results).to_dict("records")
    assert (answer["engine"], answer["n"], answer["clients"]) == ("sqlite", 2, 6)
    assert answer["other"] == "p99 of response time within 5 ms"
    assert answer["mean"] == pytest.approx(200)


def owned(node, operations, errors=0.0):
    place = {"operation": "get", "node": node, "worker": 0}
    rows = [Sample("read", "owner_operations", operations, "1", **place)]
    return rows + ([Sample("read", "owner_errors", errors, "1", **place)] if errors else [])


def test_what_each_node_did_in_a_step():
    step = {"trial": "t", "phase": "read", "step": 0}
    times = np.array([1_000_000] * 90 + [20_000_000] * 10, dtype=np.int64)
    histogram = SparseHistogram(*np.unique(bucket_indexes(times), return_counts=True))
    histograms = {("t", "read", 0, "get", "data0", "service"): histogram}
    loads = [
        ("n0", "data0", "store_cpu", 0.7),
        ("n0", "", "user", 9.0),
        ("n0", "", "cpu_user", 40.0),
        ("n1", "", "cpu_user", 50.0),
        ("n1", "data1", "store_cpu", 0.1),
    ]
    load = pd.DataFrame(loads, columns=["host", "node", "metric", "mean"]).assign(**step)
    nodes = pd.DataFrame({"trial": "t", "node": ["data0", "data1"], "host": ["n0", "n1"]})
    slowed = samples_of([Sample("read", "slow_time", 9.0, "s", node="data0")])
    steps = [{"limit_ms": 10.0, "slow": {"how": "cpu", "processes": 2}, "crash": None}]
    conditions = step_conditions([part("t", "read", steps=steps)], slowed)
    rows = [*owned("data0", 30, 2), *owned("data0", 30), *owned("data1", 20)]
    spread = samples_of(rows).table("FROM balance ORDER BY node")
    assert spread[["operations", "errors", "share"]].values.tolist() == [
        *([60, 2, 0.75], [20, 0, 0.25])
    ]
    (share,) = samples_of(owned("data0", 0, 5)).table("FROM balance")["share"]
    assert math.isnan(share), "of nothing there is none"
    wall = pd.DataFrame([{**step, "wall": 4.0, "all": 2.0}])
    one, other = per_node(histograms, spread, wall, load, nodes, conditions).to_dict("records")
    assert (one["host"], one["store_cpu"], one["cpu_user"]) == ("n0", 0.7, 40.0)
    assert (one["operations_per_s"], one["share"], one["over_limit"]) == (15.0, 0.75, 0.1)
    assert [one["service_mean"], one["service_p99"]] == pytest.approx([2.9e-3, 20e-3], rel=2e-3)
    assert one["slowed"].startswith("cpu") and one["slowed_nodes"] == 1
    assert (other["slowed"], other["slowed_nodes"], other["cpu_user"]) == ("", 1, 50.0)
    assert (other["operations_per_s"], other["store_cpu"]) == (5.0, 0.1)
    assert math.isnan(other["service_mean"]) and math.isnan(other["over_limit"])


def test_what_slowed_nodes_leave_of_the_rate():
    table = pd.DataFrame(
        {
            "trial": list("aaabb"),
            "step": [0, 1, 2, 0, 1],
            "value": [400.0, 100.0, 7.0, 900.0, 300.0],
            "slow": ["", "cpu", "", "", "cpu"],
            "slowed_nodes": [0, 1, 0, 0, 3],
            "crash": [False, False, True, False, False],
        }
    ).assign(measure="operations_per_s", unit="operations/s", phase="read")
    conditions = table[["trial", "phase", "step", "slow", "slowed_nodes", "crash"]]
    rates = table[["trial", "phase", "step", "value", "measure", "unit"]].assign(operation=ALL)
    rates = rates.assign(count=9.0, other="", rate=math.nan)
    # A step whose rate the study has set is none to compare with.
    paced = rates.iloc[:1].assign(step=9, value=1.0, rate=5.0)
    rates = pd.concat([paced, rates])
    conditions = pd.concat([conditions.iloc[:1].assign(step=9), conditions])

    def slowed(conditions):
        measured = SimpleNamespace(conditions=conditions)
        return slowed_rates(rates, SimpleNamespace(measured=measured))

    assert slowed(conditions)[["trial", "other", "value"]].to_numpy().tolist() == [
        *(["a", "0 slowed", 1], ["b", "0 slowed", 1]),
        *(["a", "1 slowed: cpu", 1 / 4], ["b", "3 slowed: cpu", pytest.approx(1 / 3)]),
    ]
    none = slowed(conditions.assign(slowed_nodes=0))
    assert none.empty and list(none) == list(rates)


def test_a_crash_lasted_as_long_as_no_worker_had_an_answer():
    def crashed(worker, of_all, of_node):
        outages = {"": of_all} | ({} if of_node is None else {"data1": of_node})
        crash = {"step": 1, "node": "data1", "after": 2.0, "outages": outages}
        return part("t", "read", worker, crashes=[crash])

    def of(worker, metric, value, **more):
        return Sample("read", metric, value, "s", step=1, worker=worker, **more)

    # The second worker began half a second later: its 2.5 to 5.5 is 3 to 6 of the first one.
    parts = [crashed(0, [(0.2, 1.5), (2.0, 5.0)], [(2.0, 9.0)]), crashed(1, [(2.5, 5.5)], None)]
    samples = samples_of(
        [
            *(of(0, "started_at", 100.0), of(1, "started_at", 100.5)),
            *(of(0, "recovery_time", 2.5), of(0, "errors", 4.0, operation="get")),
            *(of(1, "errors", 5.0, operation="get"), of(1, "errors", 7.0, second=3)),
        ]
    )
    checked = pd.DataFrame({"trial": ["t", "t", "u"], "lost": [1.0, 2.0, 9.0]})
    (row,) = crashes(parts, samples, checked).to_dict("records")
    assert (row["node"], row["after"], row["recovery_time"]) == ("data1", 2.0, 2.5)
    assert row["unavailable_time"] == pytest.approx(2.0)
    # Of the killed node's documents the first worker alone knows the owners.
    assert row["unavailable_time_node"] == pytest.approx(7.0)
    assert (row["errors"], row["lost_documents"]) == (9.0, 3.0)
    unknown = pd.DataFrame({"trial": ["t", "t"], "lost": [1.0, math.nan]})
    (row,) = crashes(parts, samples, unknown).to_dict("records")
    assert math.isnan(row["lost_documents"]), "what was not taken of one kind is not known of all"


def test_times_of_questions_are_over_executions_of_all_clients_and_over_trials():
    trials = pd.DataFrame({"trial": list("ab"), "engine": "sqlite", "index": "mv"})
    note = {"query": "q3", "step": 0, "answered_by": "store", "verb": "find"}
    note |= {"matched": 7, "found": 7}
    notes = [
        ("a", {"selectivity_pct": 1.0, "seconds": [1.0, 2.0], "uses_index": True}),
        ("a", {"selectivity_pct": 1.0, "seconds": [6.0], "uses_index": None}),
        ("b", {"selectivity_pct": 1.0, "seconds": [5.0], "uses_index": True}),
        ("a", {"selectivity_pct": 9.0, "seconds": [4.0], "uses_index": False}),
        ("b", {"selectivity_pct": 9.0, "seconds": [], "uses_index": True}),
    ]
    parts = [part(trial, "q3", notes=[note | more]) for trial, more in notes]
    results = results_of(trials, parts)
    planned = plans(results)
    shown = planned[["trial", "selectivity_pct", "executions", "seconds"]].fillna(-1)
    assert shown.to_numpy().tolist() == [
        *(["a", 1.0, 3, 3.0], ["a", 9.0, 1, 4.0], ["b", 1.0, 1, 5.0], ["b", 9.0, 0, -1])
    ]
    assert planned["uses_index"].to_list() == [True, False, True, True]


@pytest.mark.parametrize(
    ("queues", "setup"), [((1.0, 2.0), 7.0), ((None, None), 9.0), ((9.0, 0.0), math.nan)]
)
def test_the_queue_is_no_part_of_what_servers_take_to_start(queues, setup):
    nodes = pd.DataFrame(columns=NODE_COLUMNS, index=range(2)).assign(trial="t", queue_time=queues)
    (row,) = sessions(nodes, samples_of([Sample("session", "formed_time", 9.0, "s")])).to_dict(
        "records"
    )
    assert row["setup_time"] == pytest.approx(setup, nan_ok=True)
