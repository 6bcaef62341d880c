"""Hours, money and disk, against cases that were counted by hand."""

from dataclasses import replace

import pytest
from support.results.made import GROUP, SCALED, only, with_study

from storewise.analysis.common.engines import replica_factor
from storewise.analysis.judge.corpus import full_size
from storewise.analysis.judge.cost import costs, hosts_paid
from storewise.analysis.measure.summary import summarise

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
        (["vm", "vm", "vm"], 2, {"vm"}, False, (["vm"] * 3, ["vm", "vm"])),
        ([], 2, {"vm"}, False, ([], ["vm", "vm"])),
        # One job on one host is what it is, also of several workers in one job.
        ([], 1, {"vm"}, False, ([], ["vm"])),
        ([], 4, {"vm"}, True, ([], ["vm"])),
        # On a cluster hosts are paid: a configuration server beside a data node costs nothing.
        (["a", "b", "a"], 2, {"c", "d"}, False, (["a", "b"], ["c", "d"])),
        # Two workers on one host, another beside a server.
        (["a", "b"], 3, {"b", "c"}, False, (["a", "b"], ["c"])),
    ],
)
def test_hosts_are_paid_not_jobs(servers, workers, clients, one_job, expected):
    assert hosts_paid(servers, workers, clients, one_job=one_job) == expected


def of_trials(tables):
    """What each trial cost, with its factors, and the warnings."""
    table, warnings = costs(tables.measures, tables.results)
    names = ["trial", *tables.results.factors]
    return table.merge(tables.results.trials[names], on="trial"), warnings


def test_what_a_phase_cost(tables):
    table, warnings = of_trials(tables)
    assert not [w for w in warnings if w.code == "no_prices"]
    assert "null" not in set(table["engine"])
    two = table[(table["engine"] == "postgres") & (table["nodes"] == 2)]
    place = {"engine": "postgres", "nodes": 2, "trial": two["trial"].iloc[0]}

    def cost(phase, measure):
        return one(table, **place, phase=phase, measure=measure)

    def measured(phase, measure):
        return one(tables.throughput, trial=place["trial"], phase=phase, measure=measure)["value"]

    # 3 hosts at 1,000/s: a million takes 1,000 s, which are 3,000 host seconds.
    write, read = measured("write", "documents_per_s"), measured("read", "operations_per_s")
    assert cost("write", "host_hours_per_million")["value"] == pytest.approx(3e6 / write / 3600)
    assert cost("write", "hosts")["value"] == 1
    money = cost("write", "money_per_million")
    assert money["unit"] == "EUR/10^6 documents"
    assert money["value"] == pytest.approx((2 * 0.4 + 0.1) * 1e6 / write / 3600)
    money = cost("read", "money_per_million")
    assert money["unit"] == "EUR/10^6 operations"
    assert money["value"] == pytest.approx(0.9e6 / read / 3600)
    # Over repeats it is the mean rate, turned over.
    place, names = {"engine": "postgres", "nodes": 2, "phase": "write"}, list(tables.measures)
    rate = one(tables.summary, **place, measure="documents_per_s")
    mean = one(summarise(table[names], tables.results), **place, measure="host_hours_per_million")
    assert mean["mean"] * rate["mean"] == pytest.approx(3e6 / 3600)
    assert mean["low"] < mean["mean"] < mean["high"]


def test_what_a_rate_that_was_set_cost_is_not_told(tables):
    table, _ = of_trials(replace(tables, measures=tables.measures.assign(rate=9.0)))
    assert set(table["measure"]) == {"corpus_bytes", "corpus_money_per_year"}


def test_what_the_corpus_takes_and_costs_to_keep(tables):
    table, _ = of_trials(tables)
    full = full_size(tables.measures, tables.results)
    assert full.documents == pytest.approx(1e7)
    mine = table[(table["engine"] == "sqlite")].groupby("measure")["value"].first()
    assert mine["corpus_bytes"] == pytest.approx(310e7)
    assert mine["corpus_money_per_year"] == pytest.approx(3.10 * 0.05 * 12)
    assert set(table.loc[table["measure"] == "corpus_money_per_year", "unit"]) == {"EUR/year"}
    trial = table.loc[table["engine"] == "sqlite", "trial"].iloc[0]
    rate = one(tables.throughput, trial=trial, phase="write", measure="documents_per_s")
    assert mine["corpus_hours"] == pytest.approx(1e7 / rate["value"] / 3600)


def test_without_prices_of_the_study_there_are_hours_alone(tables):
    prices = {**PRICES, "by_study": False}
    table, warnings = of_trials(with_study(tables, corpus=None, prices=prices))
    assert set(table["measure"]) == {"hosts", "host_hours_per_million"}
    assert not warnings
    broken = with_study(tables, corpus=None, prices={"node_hour": "x"})
    (warning,) = of_trials(broken)[1]
    assert "prices.node_hour" in warning.message


def test_what_the_size_of_the_corpus_goes_by(tables):
    inputs = tables.results.inputs
    # Of a sample all that was listed.
    whole = with_study(tables, corpus=None)
    sampled = replace(whole.results, inputs=replace(inputs, listed=7 * inputs.files))
    assert full_size(tables.measures, sampled).documents == 7 * inputs.documents
    # Where the size of the inputs is not known, the number of files is used.
    mute = tables.measures[tables.measures["measure"] != "share_of_raw_input"]
    by_files = full_size(mute, tables.results).documents
    assert by_files == 10_000 * inputs.documents / inputs.files
    # There is none without inputs, and of a workload of its own records.
    own = with_study(tables, workload="ycsb")
    nowhere = replace(tables.results, inputs=None)
    assert full_size(tables.measures, whole.results) is full_size(mute, nowhere) is None
    assert full_size(own.measures, own.results) is None
    assert not of_trials(own)[0]["measure"].str.startswith("corpus").any()


def test_replicas_that_a_size_leaves_out_are_added(tables):
    assert replica_factor({"engine": "mongodb", "replicas": 3.0}) == 3  # it counts one of each
    assert replica_factor({"engine": "cassandra", "replicas": 3.0}) == 1  # it counts all
    assert (
        replica_factor({"engine": "sqlite", "replicas": None})
        == replica_factor({"engine": "sqlite"})
        == 1
    )
    trials = tables.results.trials
    trials = trials[trials["engine"] == "postgres"].assign(engine="mongodb", replicas=2.0)
    measures = tables.measures[tables.measures["trial"].isin(trials["trial"])]
    table, _ = costs(measures, replace(tables.results, trials=trials))
    sizes = table.loc[table["measure"] == "corpus_bytes", "value"]
    assert sizes.to_numpy() == pytest.approx(2 * 240e7)


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
        table, warnings = costs(tables.measures, replace(tables.results, parts=parts))
        rows = table[(table["phase"] == "write") & (table["measure"] == "money_per_million")]
        return rows["value"].iloc[0], [warning.message for warning in warnings]

    measured, _ = cost()
    for life_cycle, price in (("spot", 0.07), ("on-demand", 0.172)):
        money, warnings = cost("i4i.large", life_cycle)
        assert money == pytest.approx(measured * price / PRICES["client_hour"])
        assert not warnings
    money, (text,) = cost("m7i.large", "on-demand")
    assert money == pytest.approx(measured)
    assert text == "no prices for m7i.large: `node_hour` or `client_hour` is used"
