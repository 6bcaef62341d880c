"""What limited a step, from figures that are given."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest
from support.results.made import GROUP
from support.results.synthetic import HOST

from storewise.analysis.judge import bottlenecks as limit
from storewise.metrics.host import facts, link_mbit

QUIET = {"cpu": 0.4, "own_cpu": 0.4, "iowait": 0.01, "disk": 0.1, "memory": 0.3, "steal": 0.0}
BUSY = {"cpu": 0.95, "own_cpu": 0.9}
DATA0 = {"host": "n1", "servers": {"data0": (0.5, 1.0)}}


pytestmark = GROUP


def use(**changed):
    return limit.HostUse(**{**QUIET, **DATA0, **changed})


@pytest.mark.parametrize(
    ("changed", "kinds", "words"),
    [
        ({}, [], []),
        ({"disk": 0.93, "iowait": 0.41}, ["disk"], ["host of data0 93 % busy, iowait 41 %"]),
        # Half busy is queued for only where processors wait.
        ({"disk": 0.65, "iowait": 0.25}, ["disk"], ["65 %", "25 %"]),
        ({"disk": 0.65, "iowait": 0.05}, [], []),
        (BUSY, ["CPU"], ["CPU of the host of data0 95 % busy"]),
        ({"cpu": 0.89, "own_cpu": 0.9}, [], []),
        ({**BUSY, "clients": True}, ["CPU of the shared host"], ["host of data0 and clients"]),
        ({**BUSY, "own_cpu": 0.2}, ["CPU, by other work on the host"], ["at most 20 % by this"]),
        ({**BUSY, "steal": 0.2}, ["CPU"], ["20 % stolen by other virtual machines"]),
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
    result = limit.causes(use(**changed))
    assert [cause.kind for cause in result] == kinds
    text = "; ".join(cause.evidence for cause in result)
    assert all(word in text for word in words), text


def load(tables, host, bound=False, **metrics):
    """Tables with other mean loads of one host; the clients are not the limit."""
    table = tables.host.copy()
    for metric, value in metrics.items():
        mine = (table["host"] == host) & (table["metric"] == metric) & (table["node"] == "")
        if not mine.any():
            places = table[(table["host"] == host) & (table["metric"] == "cpu_user")]
            extra = places.assign(metric=metric, mean=value, max=value)
            table = pd.concat([table, extra], ignore_index=True)
        else:
            table.loc[mine, "mean"] = value
    if not bound:
        table = table[table["metric"] != "client_cpu"]
    return replace(tables, host=table)


def row_of(tables, engine, phase):
    table = limit.limits(tables).table
    chosen = table[table["trial"].str.startswith(engine) & (table["phase"] == phase)]
    (row,) = chosen.to_dict("records")
    return row


def test_the_disk_of_one_node_limits_the_step_unless_the_client_does(served):
    slow = load(load(served, "node-7", cpu_user=30.0), "n2", disk_busy=93.0, cpu_iowait=41.0)
    result = row_of(slow, "postgres", "write")
    assert (result["limited_by"], result["host"]) == ("disk", "n2")
    assert "disk of the host of data1 93 % busy, iowait 41 %" in result["evidence"]
    slow = load(served, "n1", bound=True, disk_busy=95.0, cpu_iowait=50.0)
    result = row_of(slow, "postgres", "read")
    # The synthetic clients use 0.93 of a core.
    assert (result["limited_by"], result["also"]) == (limit.CLIENT, limit.DISK)
    assert "0.93 of a core" in result["evidence"]
    assert result["host"] == "n1"  # where the figures of the disk are


def test_a_target_rate_that_was_reached_is_the_limit(served):
    (trial,) = served.trials.loc[served.trials["engine"] == "sqlite"].to_dict("records")
    rates = served.throughput.set_index(["trial", "phase", "measure"])["value"]
    rate = rates[trial["trial"], "read", "operations_per_s"]
    for request, expected in ((rate, limit.SET_RATE), (rate * 1.1, limit.NONE)):
        measures = served.measures.assign(rate=request)
        made = replace(load(served, "node-7", bound=True, cpu_user=30.0), measures=measures)
        assert row_of(made, "sqlite", "read")["limited_by"] == expected


def test_foreign_work_on_a_host_is_told_once(served):
    # Clients use one of the two processors at most: 1.2 of 100 cores would be nothing.
    host = {"host": {**HOST, "cpus": 100}}
    many = [p._replace(conditions={**p.conditions, **host}) for p in served.results.parts]
    busy = load(served, "node-7", bound=True, cpu_user=94.0)
    busy = replace(busy, results=replace(served.results, parts=many))
    (warning,) = [one for one in limit.limits(busy).warnings if one.code == "busy_host"]
    assert "node-7" in warning.message
    assert row_of(busy, "sqlite", "read")["limited_by"] == limit.FOREIGN_CPU
    assert limit.limits(load(served, "node-7", cpu_user=30.0)).warnings == []


def test_without_any_figures_nothing_is_guessed(served):
    quiet = row_of(load(served, "node-7", cpu_user=30.0), "postgres", "read")
    assert (quiet["limited_by"], quiet["also"]) == (limit.NONE, "")
    # The speed of its links is not known.
    assert "network unknown" in quiet["evidence"]
    blind = replace(served, host=served.host.iloc[:0])
    assert row_of(blind, "postgres", "read")["limited_by"] == limit.UNKNOWN
    assert limit.limits(replace(blind, measures=served.measures.iloc[:0])).table.empty


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"lo": (True, 0), "eth0": (True, 10_000)}, 10_000),
        ({"eth0": (True, 1000), "eth1": (False, 1000)}, 1000),
        ({"bond0": (True, 2000), "eth0": (True, 1000), "eth1": (True, 1000)}, 4000),
        ({"eth0": (True, 1000), "wg0": (True, 0)}, None),
        ({"eth0": (True, 65535)}, None),
    ],
)
def test_the_speed_of_a_hosts_links(monkeypatch, links, expected):
    result = {name: SimpleNamespace(isup=up, speed=speed) for name, (up, speed) in links.items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: result)
    assert link_mbit() == facts()["link_mbit"] == expected


def test_what_hosts_have_may_not_be_known(served):
    results = replace(served.results, parts=[])
    quiet = row_of(
        replace(load(served, "node-7", cpu_user=30.0), results=results), "sqlite", "read"
    )
    assert "memory unknown" in quiet["evidence"]
