"""Studies whose nodes are slowed or killed: the workflow, what it tells, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from support.workspace import Workspace

from storewise.analysis.load import load_results
from storewise.analysis.tables import build_tables
from storewise.report.owners import tables_of_owners

STUDY = """\
workload: ycsb
engines: [{engine}]
factors: {{nodes: [2], workers: [2]}}
phases:
  - load: {{recordcount: 500, fieldcount: 2, fieldlength: 20}}
  - {phase}
"""


def test_nodes_slowed_and_killed_in_a_study(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    steps = """\
g:
      seconds: 4
      steps:
        - {slow: null}
        - {slow: {how: disk, nodes: 2, file_mb: 16}, seconds: 1}
        - {crash: {node: random, after: [0.4, 0.8]}}"""
    place.write_study(STUDY.format(engine="postgres", phase=steps))
    done = place.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    tables = build_tables(load_results(place.results))
    assert list(tables.slowdown.sort_values("step")["slowed_nodes"]) == [0, 2]
    slowed = tables.per_node[tables.per_node["step"] == 1]
    assert set(slowed["slowed"]) == {"disk, a file of 16 MiB"}
    (crash,) = tables.crashes.to_dict("records")
    assert 0.4 <= crash["after"] <= 0.8
    assert crash["node"] in ("data0", "data1")
    assert crash["errors"] > 0
    assert crash["recovery_time"] > 0
    # The other node went on; the killed one's documents were out of reach.
    assert crash["unavailable_time_node"] > crash["unavailable_time"]
    assert crash["lost_documents"] == 0
    assert [t.id for t in tables_of_owners(tables)] == ["per-node", "slowdown", "crashes"]
    assert not list(tmp_path.rglob("*.slow"))
    page = (place.results / "report.html").read_text()
    assert "Servers killed under load" in page
    assert "Throughput with slowed nodes" in page
