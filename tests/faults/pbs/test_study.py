"""A study of servers through profiles/pbs, on stand-ins for the commands of PBS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.paths import SMALL
from support.pbs.workspace import PbsWorkspace
from support.waiting import wait_until

from storewise.session.server.address import addresses, is_loopback

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("kills")]

STUDY = """\
inputs: {paths: data}
engines: [postgres]
factors: {workers: 2, nodes: 2}
phases:
  - write: {batch_size: 500}
  - read: {seconds: 1}
verify: 50
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PbsWorkspace]:
    # As OpenPBS is by default.
    place = PbsWorkspace(tmp_path, history=False)
    place.copy_inputs(SMALL[:2])
    yield place
    place.end()


@pytest.mark.long("a whole study, each job of which goes through PBS", limit=1500)
def test_a_study_of_servers_runs_as_jobs_of_pbs(place: PbsWorkspace) -> None:
    place.write_study(STUDY)
    others = {address for address in addresses().values() if not is_loopback(address)}
    interface = () if others else ("--set-resources", "node:interface='lo'")
    run = place.start(place.command(*interface, "--omit-from", "analyse"))

    def both() -> bool:
        assert run.poll() is None, place.output()
        return all(place.server(node) for node in ("data0", "data1"))

    wait_until(both, 240, "both servers")
    # Each server runs in a job of its own, on that job's own disk, on the network of the site.
    for node in ("data0", "data1"):
        server = psutil.Process(place.server(node))
        job = place.job_of(node)
        assert job["state"] == "R"
        assert f"pbs.{job['id']}" in Path(server.cwd()).parts
        ends = server.net_connections("tcp")
        (listens,) = {end.laddr.ip for end in ends if end.status == psutil.CONN_LISTEN}
        assert listens in (others or {"127.0.0.1"})
        assert job["resources"] == {
            "select": "1:ncpus=1:mem=1280mb",
            "place": "excl",
            "walltime": "12:00:00",
        }
    assert run.wait(1200) == 0, place.output()
    place.nothing_left(5)
    assert place.left_behind() == []
    assert place.registered() == []
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    assert {job["exit"] for job in place.pbs.jobs().values()} == {0}
    # Two workers and two nodes: jobs of their own, with names that a person finds in qstat.
    names = ["data0", "data1", "form", "write", "read", "verify", "close", "open_session"]
    assert [len(place.jobs(name)) for name in names] == [1, 1, 1, 2, 2, 1, 1, 0]
    load = place.job_of("write.0")
    assert load["resources"]["place"] == "free"
    assert Path(load["output"]).is_file()


@pytest.mark.parametrize("whose", ["study", "profile"])
def test_a_trial_s_phases_are_one_job_where_it_is_wanted(place: PbsWorkspace, whose: str) -> None:
    """`embedded: one_host` or the profile's `groups`: jobs of a group have one name, and what
    gathers a phase is in it."""
    study, name = "embedded: one_host", "phases"
    if whose == "profile":
        study, name = "factors: {workers: 2}", "trial"
        profile = place.top / "profile" / "config.yaml"
        profile.write_text(profile.read_text().replace("# groups: [", "groups: ["))
    place.write_study(
        f"workload: ycsb\nengines: [sqlite]\n{study}\nphases:\n"
        "  - load: {recordcount: 20}\n  - c: {seconds: 0.3}\n"
    )
    done = place.snakemake("--omit-from", "analyse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(place.jobs(name)) == len(place.pbs.jobs()) == 1
    assert len(list(place.results.glob("trials/*/verify.parquet"))) == 1
    assert place.left_behind() == []
    assert place.registered() == []
