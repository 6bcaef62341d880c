"""Database servers as jobs of a real Slurm: a whole study, and whoever is killed or cancelled."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from support import kills
from support.kills import SOON, Cause, Run
from support.slurm.workspace import SlurmWorkspace
from support.waiting import exit_code, wait_until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("slurm")]

#: Without inputs, which would be jobs of their own (tests/faults/aws/test_study.py has those).
STUDY = """\
workload: ycsb
engines: {{postgres: {settings}}}
retries: 0
factors: {{workers: 2, nodes: 2}}
phases:
  - load: {{recordcount: {records}, fieldcount: 1, batchsize: 1}}
  - c: {{seconds: {seconds}, target: 20}}
"""
RECORDS = 100


def study(settings: str = "{}", *, records: int = RECORDS, seconds: float = 0.3) -> str:
    """PostgreSQL on two nodes."""
    return STUDY.format(settings=settings, records=records, seconds=seconds)


def use_scratch(place: SlurmWorkspace, nodes: str) -> None:
    """Node-local disk for the data of those nodes of which a condition on `wildcards` holds."""
    place.edit_profile("node", scratch=f"'{place.slurm.scratch}' if {nodes} else ''")


def look(place: SlurmWorkspace) -> dict[str, str]:
    """Who runs where in the middle of a session, and who listens; node -> host."""
    servers, jobs = place.servers(), place.job_members()
    hosts = {node: member.host for node, (member, _) in servers.items()}
    workers = {jobs[name].host for name in ("c.0", "c.1")}
    assert len(workers) == 2
    assert len(set(hosts.values())) == len(hosts)
    assert workers.isdisjoint(hosts.values())
    for host in place.slurm.hosts:
        published = {place_of for member, place_of in servers.values() if member.host == host}
        assert set(place.slurm.listeners(host)) == published, "only what is published listens"
        assert all(p.startswith(f"{place.slurm.address(host)}:") for p in published)
    return hosts


@pytest.mark.long("a whole study, each job of which goes through Slurm", limit=900)
def test_a_study_of_servers_on_slurm(place: SlurmWorkspace) -> None:
    place.write_study(study(seconds=6))
    use_scratch(place, "True")
    run = place.start()
    seen: dict[str, dict[str, str]] = {}

    def ended() -> bool:
        trial = place.trial_at_work("c")
        if trial is not None and trial not in seen:
            seen[trial] = look(place)
            left = [line.partition(":")[0] for line in place.node_directories() if ":" in line]
            assert set(left) == set(seen[trial].values())
        return run.poll() is not None

    wait_until(ended, 1000, "the end of the study")
    assert run.returncode == 0, place.output()
    assert [len(hosts) for hosts in seen.values()] == [2]
    place.verified(1, RECORDS)
    nodes = pd.read_csv(place.results / "analysis" / "nodes.csv")
    rows = zip(nodes["trial"], nodes["node"], nodes["host"], nodes["address"], strict=True)
    result: dict[str, dict[str, str]] = {}
    for trial, node, host, address in rows:
        assert address == place.slurm.address(host)
        result.setdefault(trial, {})[node] = host
    assert result == seen, "hosts in the tables are those that were seen"
    page = (place.results / "report.html").read_text()
    servers = page[page.index('<table id="servers">') :]
    servers = servers[: servers.index("</table>")]
    for hosts in seen.values():
        assert all(f"<td>{host}</td>" in servers for host in hosts.values())


#: Thousands of transactions; a phase that lasts.
LONG = {"load": study("{bulk: insert}", records=1_000_000), "c": study(seconds=600)}


def kill_server(place: SlurmWorkspace, run: Run) -> None:
    place.kill(place.servers()["data1"][0])


def cancel_node(place: SlurmWorkspace, run: Run) -> None:
    """More than once, as Snakemake and its plugin do: each sends the job another SIGTERM."""
    jobs = [job for job in place.slurm.jobs("node") if job.comment.endswith("_data1")]
    assert len(jobs) == 1, place.slurm.jobs("node")
    for _ in range(10):
        place.slurm.cancel(jobs[0])


def kill_node(place: SlurmWorkspace, run: Run) -> None:
    place.kill(place.job_members()["data0"])


def kill_worker(place: SlurmWorkspace, run: Run) -> None:
    place.kill(place.job_members()["load.1"])


def cancel_worker(place: SlurmWorkspace, run: Run) -> None:
    (job,) = [job for job in place.slurm.jobs("load") if job.comment.endswith("_1")]
    place.slurm.cancel(job)


def pass_wall_time(place: SlurmWorkspace, run: Run) -> None:
    """Slurm looks at it twice a minute."""
    (job,) = [job for job in place.slurm.jobs("load") if job.comment.endswith("_1")]
    place.slurm.command("scontrol", "update", f"JobId={job.id}", "TimeLimit=1")
    wait_until(lambda: place.failures_told() == 1, 240, "the wall time's end")


#: Cause, phase, and what the recorded reason must say (None: no failure of the trial).
CELLS: list[tuple[Cause, str, str | None]] = [
    (cancel_node, "load", r"data1 was ended by signal SIGTERM"),
]
#: Last: a killed run cleans up nothing, the plain run after it does.
FURTHER: list[tuple[Cause, str, str | None]] = [
    (kill_server, "load", r"data1: the server of PostgreSQL on host sw\d was ended by SIGKILL"),
    (cancel_node, "c", r"data1 was ended by signal SIGTERM"),
    (kill_node, "c", r"data0 on host sw\d was ended by SIGKILL"),
    (kill_worker, "load", r"load.1 on host sw\d was ended by SIGKILL"),
    (cancel_worker, "load", r"load.1 was ended by signal SIGTERM"),
    (pass_wall_time, "load", r"load.1 .*TIMEOUT"),
    (kills.interrupt, "load", None),
    (kills.interrupt, "c", None),
    (kills.terminate, "load", None),
    (kills.terminate, "c", None),
    (kills.kill_snakemake, "load", None),
    (kills.kill_snakemake, "c", None),
]


@pytest.mark.long("a run for each kill, and one that goes on to the end", limit=2400)
@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(CELLS, id="a-cancelled-job"),
        pytest.param(FURTHER, id="further", marks=pytest.mark.all_cells),
    ],
)
def test_nothing_is_left_on_slurm_and_the_next_run_goes_on(
    place: SlurmWorkspace,
    monkeypatch: pytest.MonkeyPatch,
    cells: list[tuple[Cause, str, str | None]],
) -> None:
    """One after another in one directory: each start has what the run before left in its way."""
    # One server's data lies on its host's own disk, the other's below the results.
    use_scratch(place, "wildcards.node == 'data1'")
    place.edit_profile("form", run_local=1)
    for cause, phase, reason in cells:
        failed = len(place.failures())
        if cause is kills.kill_snakemake:
            kills.short_lease(monkeypatch)
        place.write_study(LONG[phase])
        run = place.start()
        place.await_work(run, phase, 240)
        assert len(place.node_directories()) == 2
        cause(place, run)
        seconds = place.nothing_left(SOON)
        print(f"{cause.__name__}, {phase}: nothing is left after {seconds:.1f} s")
        assert exit_code(run, SOON) != 0
        if cause is not kills.kill_snakemake:
            assert place.left_behind() == []
            wait_until(lambda: not place.registered(), SOON, "the end of cancelling")
        new = place.failures()[failed:]
        if reason is None:
            assert new == []
        else:
            (text,) = new
            print(f"  {text}")
            assert re.search(reason, text), text
            assert place.failures_told() == 1, "the first reason, once"
    place.goes_on()
    wait_until(lambda: not place.registered(), SOON, "the end of cancelling")
    place.nothing_left(SOON)


@pytest.mark.all_cells
@pytest.mark.long("a node's wall time of a minute passes while it waits for the other", limit=400)
@pytest.mark.parametrize("room_for_form", [True, False])
def test_a_node_that_never_starts_is_named(place: SlurmWorkspace, room_for_form: bool) -> None:
    """Others have the cluster: there is one host for two nodes."""
    place.write_study(study())
    use_scratch(place, "True")
    place.edit_profile("node", runtime=1)
    others = [["--nodes=2", "--exclusive"]]
    others.append(["--nodes=1", "--ntasks=62"] if room_for_form else ["--nodes=1", "--exclusive"])
    for options in others:
        job = ["--job-name=others", "--mem=100", "--output=/dev/null", "--wrap=exec sleep 3600"]
        place.slurm.command("sbatch", *options, *job)
    wait_until(lambda: len(place.slurm.processes(name="sleep")) >= 2, 30, "the others' jobs")
    run = place.start()
    assert exit_code(run, 240) != 0, place.output()
    (text,) = place.failures()
    queued = "" if room_for_form else ", form"
    assert re.search(rf"data[01]{queued} had not started yet", text), text
    assert place.failures_told() == 1
    place.slurm.command("scancel", "--name=others")
    place.nothing_left(10)
    assert place.left_behind() == []
    wait_until(lambda: not place.registered(), SOON, "the end of cancelling")
