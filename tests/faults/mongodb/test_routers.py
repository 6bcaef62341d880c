"""Servers beside the clients: one on each worker host, started by one worker and used by all."""

import pyarrow.parquet as pq
import pytest
from support.needs import unavailable
from support.servers import mongodb_binaries
from support.waiting import wait_until
from support.workspace import Workspace


# CI has such routers in test_cluster, and HBase's gateways through the workflow.
@pytest.mark.all_cells
@pytest.mark.long("it waits for a scheduler or for servers", limit=900)
def test_a_sharded_cluster_with_its_routers_on_the_worker_hosts(tmp_path):
    """The whole workflow: forming, two phases and the verification each with routers of theirs."""
    try:
        home = mongodb_binaries.emulated()
    except mongodb_binaries.Unavailable as error:
        unavailable(str(error))
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(
        "inputs: {paths: data}\n"
        f"engines: {{mongodb: {{home: {home}}}}}\n"
        "factors: {workers: 2, nodes: 2, routers: 0}\n"
        "phases:\n  - write: {batch_size: 200}\n  - read: {seconds: 1}\n"
    )
    done = place.snakemake("--omit-from", "analyse", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    wait_until(lambda: not place.processes(), 30, "the end of all processes")
    assert place.left_behind() == []
    for phase in ("write", "read"):
        logs = [log.read_text() for log in place.results.glob(f"logs/*/{phase}.?.log")]
        assert sum("router at port" in log for log in logs) == 1, "one for both workers"
        sampled = [
            path.name
            for path in place.results.glob(f"trials/*/{phase}.?.parquet")
            if "router_cpu" in pq.read_table(path).column("metric").to_pylist()
        ]
        assert len(sampled) == 1
