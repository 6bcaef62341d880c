"""Engines with ports without authentication, across the networks of a real Slurm's hosts."""

from __future__ import annotations

import pandas as pd
import pytest
from support.needs import unavailable
from support.servers import jvm_binaries
from support.slurm.workspace import SlurmWorkspace
from support.waiting import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.all_cells,
]

STUDY = """\
inputs: {{paths: data}}
engines: [{engine}]
factors: {{workers: 2, nodes: {nodes}, replicas: {replicas}}}
allow_open_ports: {allowed}
retries: 0
phases:
  - write: {{batch_size: 1000}}
  - read: {{seconds: 8}}
"""


def published(place: SlurmWorkspace, host: str) -> set[str]:
    """``address:port`` of all ports that the servers of a host have published, there or on
    loopback, where a port among a server's own parts may listen."""
    result = set()
    for _, data in place._records("endpoints/*.json"):
        end = data["endpoint"]
        if end["host"] == host:
            ports = [end["port"], *end["ports"].values()]
            result |= {f"{at}:{port}" for port in ports for at in (end["address"], "127.0.0.1")}
    return result


@pytest.mark.long("servers on Java start on each host of a Slurm", limit=1200)
@pytest.mark.parametrize(("engine", "nodes"), [("cassandra", 2), ("hbase", 1)])
def test_across_hosts(
    place: SlurmWorkspace, monkeypatch: pytest.MonkeyPatch, engine: str, nodes: int
) -> None:
    try:
        monkeypatch.setenv(f"STOREWISE_{engine.upper()}_HOME", str(jvm_binaries.jars(engine)))
    except jvm_binaries.Unavailable as error:
        unavailable(str(error))
    text = STUDY.format(engine=engine, nodes=nodes, replicas=nodes, allowed="true")
    place.write_study(text.replace("allow_open_ports: true", "allow_open_ports: false"))
    place.edit_profile("node", scratch=str(place.slurm.scratch))
    refused = place.run(place.command(), timeout=600)
    assert refused.returncode != 0
    assert "allow_open_ports: true" in " ".join(place.failures())
    place.nothing_left(60)

    place.write_study(text)
    run = place.start()
    seen: dict[str, str] = {}

    def ended() -> bool:
        if not seen and place.trial_at_work("read") is not None:
            for name, (member, _) in place.servers().items():
                seen[name] = member.host
                # What listens is published; not all that is published must listen.
                assert set(place.slurm.listeners(member.host)) <= published(place, member.host)
        return run.poll() is not None

    wait_until(ended, 1000, "the end of the study")
    assert run.returncode == 0, place.output()
    assert len(seen) == nodes and len(set(seen.values())) == nodes
    place.verified(1)
    table = pd.read_csv(place.results / "analysis" / "nodes.csv")
    assert dict(zip(table["node"], table["host"], strict=True)) == seen
    page = (place.results / "report.html").read_text()
    assert "OPEN PORTS" in page
