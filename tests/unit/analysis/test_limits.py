"""What limited a step, from figures that are given."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest
from support.results.made import GROUP
from support.results.synthetic import HOST

from storewise.analysis.judge import bottlenecks as limit
from storewise.analysis.judge.bottlenecks import (
    HostFacts,
    HostUse,
    causes,
    host_facts,
    host_uses,
    limits,
)
from storewise.metrics.host import facts, link_mbit

QUIET = {"cpu": 0.4, "own_cpu": 0.4, "iowait": 0.01, "disk": 0.1, "memory": 0.3, "steal": 0.0}
DATA0 = {"host": "n1", "servers": {"data0": (0.5, 1.0)}}


pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    """PostgreSQL on two hosts, its clients and SQLite on another."""
    engines, hosts = ["null", "sqlite", "postgres"], ["n1", "n2"]
    return made.measured(engines=engines, workers=[1], nodes=[2], store_hosts=hosts, repeats=1)


def use(**changed):
    return HostUse(**{**QUIET, **DATA0, **changed})


@pytest.mark.parametrize(
    ("changed", "kinds", "words"),
    [
        ({}, [], []),
        ({"disk": 0.93, "iowait": 0.41}, ["disk"], ["host of data0 93 % busy, iowait 41 %"]),
        # Half busy is queued for only where processors wait.
        ({"disk": 0.65, "iowait": 0.25}, ["disk"], ["65 %", "25 %"]),
        ({"disk": 0.65, "iowait": 0.05}, [], []),
        ({"cpu": 0.95, "own_cpu": 0.9}, ["CPU"], ["CPU of the host of data0 95 % busy"]),
        ({"cpu": 0.89, "own_cpu": 0.9}, [], []),
        (
            {"cpu": 0.95, "own_cpu": 0.9, "clients": True},
            ["CPU of the shared host"],
            ["host of data0 and clients"],
        ),
        (
            {"cpu": 0.96, "own_cpu": 0.2},
            ["CPU, by other work on the host"],
            ["at most 20 % by this trial's processes"],
        ),
        (
            {"cpu": 0.96, "own_cpu": 0.9, "steal": 0.2},
            ["CPU"],
            ["20 % stolen by other virtual machines"],
        ),
        # A server has its processors to itself and used them up.
        ({"servers": {"data0": (0.97, 1.0)}}, ["CPU"], ["data0 used 0.97 cores and was given 1"]),
        ({"servers": {"data0": (1.6, 1.0)}}, [], []),
        ({"servers": {"data0": (0.97, float("nan"))}}, [], []),
        ({"memory": 0.97}, ["memory"], ["97 % in use"]),
        ({"swap": 5 * 2.0**20}, ["memory"], ["30 % in use, 5.00 MiB/s to and from swap"]),
        ({"swap": 1000.0}, [], []),
        ({"network": 0.85, "traffic": 1.0625e9}, ["network"], ["85 %", "1,010 MiB/s"]),
        # Much traffic over links of unknown speed is no limit.
        ({"traffic": 1e12}, [], []),
    ],
)
def test_what_a_host_had_reached(changed, kinds, words):
    result = causes(use(**changed))
    assert [cause.kind for cause in result] == kinds
    text = "; ".join(cause.evidence for cause in result)
    assert all(word in text for word in words), text


def load(table, host, **metrics):
    """The table of host load with other means for a host that is no node's own row."""
    table = table.copy()
    for metric, value in metrics.items():
        mine = (table["host"] == host) & (table["metric"] == metric) & (table["node"] == "")
        if not mine.any():
            places = table[(table["host"] == host) & (table["metric"] == "cpu_user")]
            extra = places.assign(metric=metric, mean=value, max=value)
            table = pd.concat([table, extra], ignore_index=True)
        else:
            table.loc[mine, "mean"] = value
    return table


def row_of(tables, engine, phase):
    table = limits(tables).table
    (row,) = table[table["trial"].str.startswith(engine) & (table["phase"] == phase)].to_dict(
        "records"
    )
    return dict(row)


def test_no_limit_seen_says_what_was_looked_at(tables):
    host = load(tables.host, "node-7", cpu_user=30.0)
    quiet = replace(tables, host=host, client_bound=tables.client_bound.iloc[:0])
    result = row_of(quiet, "postgres", "read")
    assert result["limited_by"] == limit.NONE
    assert result["also"] == ""
    assert "network unknown (its links' speed is not known)" in result["evidence"]
    assert "CPU 55 %" in result["evidence"]  # the nodes' hosts are busier than the clients'
    assert result["host"] in ("n1", "n2")


def test_the_disk_of_one_node_limits_the_step(tables):
    host = load(tables.host, "node-7", cpu_user=30.0)
    host = load(host, "n2", disk_busy=93.0, cpu_iowait=41.0)
    slow = replace(tables, host=host, client_bound=tables.client_bound.iloc[:0])
    result = row_of(slow, "postgres", "write")
    assert (result["limited_by"], result["host"], result["node"]) == ("disk", "n2", "data1")
    assert "disk of the host of data1 93 % busy, iowait 41 %" in result["evidence"]
    assert (result["disk"], result["iowait"]) == pytest.approx((0.93, 0.41))


def test_the_client_comes_first_and_the_rest_beside_it(tables):
    host = load(tables.host, "n1", disk_busy=95.0, cpu_iowait=50.0)
    result = row_of(replace(tables, host=host), "postgres", "read")
    # The synthetic clients use 0.93 of a core.
    assert (result["limited_by"], result["also"]) == (limit.CLIENT, limit.DISK)
    assert "0.93 of a core" in result["evidence"]
    assert result["host"] == "n1"  # where the figures of the disk are


def test_a_rate_that_was_asked_for_and_reached_limits(tables):
    (trial,) = tables.trials.loc[tables.trials["engine"] == "sqlite"].to_dict("records")
    rates = tables.throughput
    rate = float(
        rates.loc[
            (rates["trial"] == trial["trial"])
            & (rates["phase"] == "read")
            & (rates["measure"] == "operations_per_s"),
            "value",
        ].item()
    )
    for request, expected in ((rate, limit.SET_RATE), (rate * 1.1, limit.NONE)):
        step = {f: trial[f] for f in tables.results.factors}
        steps = pd.DataFrame([{**step, "phase": "read", "step": 0, "rate": request}])
        made = replace(tables, steps=steps, host=load(tables.host, "node-7", cpu_user=30.0))
        result = row_of(made, "sqlite", "read")
        assert result["limited_by"] == expected
    assert "that were asked for" not in result["evidence"]


def test_foreign_work_on_a_host_is_told_once(tables):
    # Clients use one of the two processors at most: 1.2 of 100 cores would be nothing.
    host = load(tables.host, "node-7", cpu_user=94.0)
    many = [
        part._replace(conditions={**part.conditions, "host": {**HOST, "cpus": 100}})
        for part in tables.results.parts
    ]
    busy = replace(tables, host=host, results=replace(tables.results, parts=many))
    result = limits(busy)
    (warning,) = result.warnings
    assert warning.code == "busy_host"
    assert "node-7" in warning.message
    sqlite = row_of(busy, "sqlite", "read")
    assert sqlite["limited_by"] == limit.FOREIGN_CPU
    assert limits(replace(tables, host=load(tables.host, "node-7", cpu_user=30.0))).warnings == []


def test_without_any_figures_nothing_is_guessed(tables):
    blind = replace(tables, host=tables.host.iloc[:0], client_bound=tables.client_bound.iloc[:0])
    result = row_of(blind, "postgres", "read")
    assert result["limited_by"] == limit.UNKNOWN
    assert result["evidence"] == "no figures of any host"
    nothing = replace(blind, throughput=tables.throughput.iloc[:0])
    assert limits(nothing).table.empty
    assert list(limits(nothing).table.columns) == list(limit.COLUMNS)


def test_own_processor_time_is_counted_at_its_most(tables):
    (trial,) = tables.trials.loc[tables.trials["engine"] == "postgres", "trial"]
    by_host = {one.host: one for one in host_uses(tables)[trial, "write", 0]}
    assert set(by_host) == {"node-7", "n1", "n2"}
    # A client of 0.93 cores on two processors; a node of 0.8 cores on two.
    clients, node = by_host["node-7"], by_host["n1"]
    assert clients.own_cpu == pytest.approx(0.93 / 2, rel=0.05)
    assert node.own_cpu == pytest.approx(0.4, rel=0.05)
    assert (clients.clients, node.clients) == (True, False)
    assert node.servers["data0"][1] == 1
    assert not node.shared


def test_links_speeds_are_known_or_not(tables):
    def part(**host):
        return tables.results.parts[0]._replace(conditions={"host": {"name": "a", **host}})

    assert host_facts([part(cpus=4, memory_bytes=8, link_mbit=10_000)]) == {
        "a": HostFacts(4.0, 8.0, 1.25e9)
    }
    (unknown,) = host_facts([part(link_mbit=None)]).values()
    assert str(unknown.link) == "nan"


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"lo": (True, 0), "eth0": (True, 10_000)}, 10_000),
        ({"eth0": (True, 1000), "eth1": (False, 1000)}, 1000),
        ({"bond0": (True, 2000), "eth0": (True, 1000), "eth1": (True, 1000)}, 4000),
        ({"eth0": (True, 1000), "wg0": (True, 0)}, None),
        ({"eth0": (True, 65535)}, None),
        ({"lo": (True, 0)}, None),
    ],
)
def test_the_speed_of_a_hosts_links(monkeypatch, links, expected):
    result = {name: SimpleNamespace(isup=up, speed=speed) for name, (up, speed) in links.items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: result)
    assert link_mbit() == expected
    assert facts()["link_mbit"] == expected
