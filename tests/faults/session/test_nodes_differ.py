"""Nodes with addresses of their own, one of them slowed: who sees it, and that nothing is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.slurm.hosts import Host, OnHosts, hosts
from support.waiting import wait_until

from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.session.coordination.liveness import read_abort
from storewise.session.faults.orders import Orders
from storewise.study.trial import Trial
from storewise.workloads.faults import Slow

pytestmark = pytest.mark.needs("root", "postgres", "ip", "nsenter", "unshare")


@pytest.fixture(scope="module")
def places() -> Iterator[list[Host]]:
    with hosts(3) as result:
        yield result


def trial_of(*steps: dict[str, object], nodes: int = 3) -> Trial:
    # The servers have no other port, and nobody else is on this bridge.
    values = {"workload": "ycsb", "repeat": 1, "seed": 5, "threads": 3, "allow_open_ports": True}
    load = {"recordcount": 300, "fieldcount": 2, "fieldlength": 20}
    return Trial(
        **values,
        study="differ",
        id="postgres-differ",
        engine="postgres",
        factors={"engine": "postgres", "nodes": nodes},
        nodes=nodes,
        consistency="durable",
        phases=[
            {"name": "load", "params": load},
            {"name": "c", "params": {"seconds": 1.5}, "steps": list(steps)},
        ],
    )


def test_what_a_slowed_node_did_stands_beside_what_its_clients_saw(
    places: list[Host], tmp_path: Path
) -> None:
    trial = trial_of({"slow": None}, {"slow": {"how": "cpu", "processes": 1, "names": ["data1"]}})
    with OnHosts(tmp_path, trial, places) as running:
        for phase in ("load", "c", "verify"):
            running.run(phase)
        running.close()
    assert not list(tmp_path.rglob("*.slow"))
    tables = build_tables(load_results(tmp_path / "results"))
    result = tables.per_node.set_index(["phase", "step", "node"]).loc["c"]
    assert list(result.loc[0].index) == ["data0", "data1", "data2"]
    assert set(result["host"]) == {"differ0", "differ1", "differ2"}
    assert list(result.loc[1]["slowed"].str[:3]) == ["", "cpu", ""]
    assert result.loc[(1, "data1")]["slowed_nodes"] == 1
    # The nodes' own figures stand in the same rows.
    assert result["store_cpu"].notna().all()
    left = tables.summary[tables.summary["measure"] == "slowed_rate"]
    assert list(left["other"].str[:8]) == ["0 slowed", "1 slowed"]


def test_killed_jobs_of_nodes_leave_no_slowing(places: list[Host], tmp_path: Path) -> None:
    """SIGKILL to the jobs of slowed nodes: their guards end servers and slowers, and remove the
    files."""
    with OnHosts(tmp_path, trial_of({"slow": None}, nodes=2), places[:2]) as running:
        orders = Orders(running.live)
        orders.slow(Slow(how="disk", file_mb=8, names=("data0",)))
        orders.slow(Slow(how="cpu", processes=1, names=("data1",)))
        directories = list(tmp_path.rglob("data?.slow"))
        assert len(directories) == 2
        working = [
            p for p in psutil.process_iter() if any(str(d) in _words(p) for d in directories)
        ]
        assert len(working) == 3  # the busy processor has a parent
        for process in running.nodes.values():
            process.kill()  # nsenter has become the job itself
        wait_until(lambda: not any(d.exists() for d in directories), 20, "all files have gone")
        wait_until(lambda: not any(p.is_running() for p in working), 20, "the slowers have gone")
        wait_until(lambda: (running.live / "abort").exists(), 20, "the trial is aborted")
        reason = read_abort(running.live / "abort").reason
        assert re.search(r"data\d: its job on host differ\d has ended", reason)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
