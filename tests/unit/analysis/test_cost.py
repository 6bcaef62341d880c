"""Hours, money and disk, against cases that were counted by hand."""

import math
from dataclasses import replace

import pytest
from support.results.made import GROUP, SCALED, only, with_study

from storewise.analysis.common.engines import replica_factor
from storewise.analysis.judge.corpus import FullSize, corpus_disk, full_size, line
from storewise.analysis.judge.cost import AS_PLACED, ONE_EACH, Hosts, costs, hosts_paid
from storewise.analysis.stats.intervals import Estimate

pytestmark = GROUP

PRICES = {"currency": "EUR", "node_hour": 0.4, "client_hour": 0.1, "gb_month": 0.05}
PRICES |= {"note": "of May", "by_study": True}


@pytest.fixture(scope="module")
def tables(made):
    """SQLite, and PostgreSQL on one and on two nodes, all on one host, with one worker."""
    # 100 bytes of text per document in these results: 10^7 documents.
    corpus = {"files": 10_000, "bytes": 10**9}
    study = with_study(made.measured(**SCALED), prices=PRICES, corpus=corpus)
    return only(study, workers=1)


def one(table, **levels):
    for name, level in levels.items():
        table = table[table[name] == level]
    (row,) = table.to_dict("records")
    return dict(row)


@pytest.mark.parametrize(
    ("servers", "workers", "clients", "one_job", "expected"),
    [
        # Everything on one machine: each is paid as if it had its own.
        (["vm", "vm", "vm"], 2, {"vm"}, False, Hosts(("vm",) * 3, ("vm", "vm"), ONE_EACH)),
        ([], 2, {"vm"}, False, Hosts((), ("vm", "vm"), ONE_EACH)),
        # One job on one host is what it is, also of several workers in one job.
        ([], 1, {"vm"}, False, Hosts((), ("vm",), AS_PLACED)),
        ([], 4, {"vm"}, True, Hosts((), ("vm",), AS_PLACED)),
        # On a cluster hosts are paid: a configuration server beside a data node costs nothing.
        (["a", "b", "a"], 2, {"c", "d"}, False, Hosts(("a", "b"), ("c", "d"), AS_PLACED)),
        # Two workers on one host, another beside a server.
        (["a", "b"], 3, {"b", "c"}, False, Hosts(("a", "b"), ("c",), AS_PLACED)),
    ],
)
def test_hosts_are_paid_not_jobs(servers, workers, clients, one_job, expected):
    assert hosts_paid(servers, workers, clients, one_job=one_job) == expected


def test_hours_per_million_are_hosts_over_the_rate():
    # 3 hosts at 1,000/s: a million takes 1,000 s, which are 3,000 host seconds.
    hours = Estimate(3, 1000, 800, 1250, 0.1, 2.0).reciprocal(3e6)
    assert (hours.mean, hours.low, hours.high) == pytest.approx((3000, 3 * 800, 3 * 1250))
    assert (hours.n, hours.error, hours.freedom) == (3, 0.1, 2.0)
    # A rate that may be nothing gives a cost without an interval.
    for low, high in ((math.nan, math.nan), (-1, 11)):
        unsure = Estimate(3, 5, low, high).reciprocal(1e6)
        assert (unsure.mean, unsure.known()) == (2e5, False)
        assert math.isnan(unsure.low) and math.isnan(unsure.high)


def test_a_line_and_its_prediction_by_hand():
    # y = -2/3 + 5/2 x; squared residuals 1/36 + 4/36 + 1/36 on one degree of freedom.
    result = line([1, 2, 3], [2, 4, 7], 10)
    assert (result.fixed, result.per_document) == pytest.approx((-2 / 3, 2.5))
    assert result.mean == pytest.approx(25 - 2 / 3)
    half = 12.706205 * math.sqrt(1 / 6 * (1 + 1 / 3 + 64 / 2))
    assert result.high == pytest.approx(result.mean + half)
    assert result.low == 0  # less than nothing is cut
    assert result.freedom == 1
    # Repeats of the same size are no further points.
    assert line([1, 2, 3, 3, 2, 1], [2, 4, 7, 7, 4, 2], 10) == result
    assert line([1, 2, 3, 3], [2, 4, 6, 8], 10) == result
    assert line([1, 2, 2, 1], [1, 2, 2, 1], 10) is None  # through two levels every line goes
    assert line([1, 2, 3], [9, 5, 1], 10) is None  # a store that shrinks
    assert line([], [], 10) is None


def test_what_a_phase_cost(tables):
    result = costs(tables)
    assert not [w for w in result.warnings if w.code == "no_prices"]
    assert "null" not in set(result.table["engine"])
    place = {"engine": "postgres", "nodes": 2}

    def cost(phase, measure):
        return one(result.table, **place, phase=phase, measure=measure)

    def measured(phase, measure):
        return one(tables.rates, **place, phase=phase, measure=measure)

    write = measured("write", "documents_per_s")
    hours = cost("write", "host_hours_per_million")
    assert hours["mean"] == pytest.approx(3e6 / write["mean"] / 3600)
    assert hours["low"] == pytest.approx(3e6 / write["high"] / 3600)
    assert (hours["nodes_paid"], hours["clients_paid"], hours["basis"]) == (2, 1, ONE_EACH)
    money = cost("write", "money_per_million")
    assert money["unit"] == "EUR/10^6 documents"
    assert (money["note"], hours["note"]) == ("of May", "")
    assert money["mean"] == pytest.approx((2 * 0.4 + 0.1) * 1e6 / write["mean"] / 3600)
    money = cost("read", "money_per_million")
    assert money["unit"] == "EUR/10^6 operations"
    rate_of_read = measured("read", "operations_per_s")["mean"]
    assert money["mean"] == pytest.approx(0.9e6 / rate_of_read / 3600)
    wall = measured("read", "duration")["mean"]
    assert cost("read", "host_hours")["mean"] == pytest.approx(3 * wall / 3600)


def test_what_the_corpus_takes_and_costs_to_keep(tables):
    result = costs(tables)
    full = full_size(tables)
    assert (full.documents, full.by) == (pytest.approx(1e7), "text")
    assert full.multiple == pytest.approx(1e7 / full.loaded)
    size = one(result.table, engine="sqlite", measure="corpus_bytes")
    year = one(result.table, engine="sqlite", measure="corpus_money_per_year")
    assert (size["mean"], year["mean"]) == pytest.approx((310e7, 3.10 * 0.05 * 12))
    assert year["unit"] == "EUR/year"


def test_without_prices_of_the_study_there_are_hours_alone(tables):
    result = costs(with_study(tables, corpus=None, prices={**PRICES, "by_study": False}))
    assert not result.table["measure"].str.contains("money|corpus").any()
    assert result.table["measure"].str.contains("hours").any()
    assert not result.warnings
    broken = with_study(tables, corpus=None, prices={"node_hour": "x"})
    (warning,) = (w for w in costs(broken).warnings if w.code == "no_prices")
    assert "prices.node_hour" in warning.message


def test_what_the_size_of_the_corpus_goes_by(tables):
    inputs = tables.results.inputs
    # Of a sample all that was listed.
    whole = with_study(tables, corpus=None)
    sampled = replace(whole.results, inputs=replace(inputs, listed=7 * inputs.files))
    result = full_size(replace(tables, results=sampled))
    assert (result.by, result.documents) == ("sample", 7 * inputs.documents)
    # Where the size of the inputs is not known, the number of files is used.
    mute = tables.measures[tables.measures["measure"] != "share_of_raw_input"]
    result = full_size(replace(tables, measures=mute))
    assert (result.by, result.documents) == ("files", 10_000 * inputs.documents / inputs.files)
    # There is none without inputs, and of a workload of its own records.
    none = replace(tables, measures=mute, results=replace(tables.results, inputs=None))
    own = with_study(tables, workload="ycsb")
    assert full_size(whole) is None and full_size(none) is None and full_size(own) is None
    assert not costs(own).table["measure"].str.startswith("corpus").any()


def test_replicas_that_a_size_leaves_out_are_added(tables):
    assert replica_factor({"engine": "mongodb", "replicas": 3.0}) == 3  # it counts one of each
    assert replica_factor({"engine": "cassandra", "replicas": 3.0}) == 1  # it counts all
    assert (
        replica_factor({"engine": "sqlite", "replicas": None})
        == replica_factor({"engine": "sqlite"})
        == 1
    )
    sizes = tables.summary
    sizes = sizes[sizes["engine"] == "postgres"].assign(engine="mongodb", replicas=2.0)
    results = replace(tables.results, factors=(*tables.results.factors, "replicas"))
    made = replace(tables, summary=sizes, results=results)
    result = corpus_disk(made, FullSize(1e6, "text", 1e5, 100))
    assert result["mean"].to_list() == pytest.approx([2 * 240e6] * 2)


def test_a_host_that_was_an_instance_costs_what_its_type_costs(made):
    prices = {**PRICES, "instances": {"i4i.large": {"on_demand": 0.172, "spot": 0.07}}}
    tables = only(made.measured(**SCALED), engine="sqlite", workers=2)
    tables = with_study(tables, prices=prices, corpus=None)

    def cost(kind="", life_cycle=""):
        instance = {"type": kind, "life_cycle": life_cycle, "zone": "z", "image": "ami"}
        parts = []
        for part in tables.results.parts:
            host = {**part.conditions["host"], **({"instance": instance} if kind else {})}
            parts.append(part._replace(conditions={**part.conditions, "host": host}))
        judged = costs(replace(tables, results=replace(tables.results, parts=parts)))
        row = one(judged.table, phase="write", measure="money_per_million")
        return row["mean"], row["note"]

    measured, note = cost()
    assert note == "of May", "hosts of no cloud"
    for life_cycle, price in (("spot", 0.07), ("on-demand", 0.172)):
        mean, note = cost("i4i.large", life_cycle)
        assert mean == pytest.approx(measured * price / PRICES["client_hour"])
        assert note.startswith("priced as 2 x i4i.large ")
    mean, note = cost("m7i.large", "on-demand")
    assert mean == pytest.approx(measured)
    assert "priced as 2 x client_hour, for want of a price of m7i.large on" in note
