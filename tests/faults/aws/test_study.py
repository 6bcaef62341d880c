"""A study through profiles/aws, from inputs on S3 to results on S3 and back, on a real Slurm.

Its hosts stand for instances, each with metadata of its own, and moto for S3, which they reach over
their network. One host goes in the middle of a trial, as an instance does that EC2 takes back.
"""

import re
import subprocess
import sys
from contextlib import ExitStack
from subprocess import PIPE

import pandas as pd
import pytest
import yaml
from support.needs import unavailable
from support.paths import ROOT, SMALL
from support.s3 import instance_metadata
from support.s3.instance_metadata import DOCUMENT, ImdsServer
from support.s3.server import S3Server
from support.slurm.cluster import slurm_cluster, why_not
from support.waiting import wait_until
from support.workspace import Workspace

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("slurm")]

PROFILE = ROOT / "profiles" / "aws" / "config.yaml"
#: Hosts by queue of cluster.yaml; a spare one where one is lost.
QUEUES = {"data": ("sw1", "sw2"), "data-large": ("sw3",), "work": ("sw4",)}
#: What the hosts of a queue say that they are, as cluster.yaml starts them; and the head node.
INSTANCES = {
    "data": ("i4i.2xlarge", "on-demand"),
    "data-large": ("i4i.8xlarge", "on-demand"),
    "work": ("c7i.8xlarge", "spot"),
}
HEAD = {**DOCUMENT, "instanceType": "m7i.xlarge"}
STUDY = """\
title: Two classes of instances
inputs: {{paths: s3://{bucket}/corpus/}}
engines: [postgres]
factors: {{node_class: [data, large]}}
phases:
  - write: {{batch_size: 1000}}
  - read: {{seconds: 8}}
retries: 1
publish: {{to: s3://{bucket}/studies, name: first, tags: {{project: bacteria}}}}
"""


@pytest.fixture(scope="module")
def slurm():
    """A Slurm with the queues of profiles/aws."""
    if why := why_not():
        unavailable(why)
    with slurm_cluster(hosts=4, partitions=QUEUES) as cluster:
        yield cluster


@pytest.fixture
def s3(slurm):
    """An S3 that all hosts reach."""
    with S3Server(slurm.login_address) as server:
        yield server


@pytest.fixture
def instances(slurm):
    """Metadata on all hosts, at one address of each; the environment that says so."""
    program = instance_metadata.__file__
    with ImdsServer(document=HEAD) as head, ExitStack() as stack:
        for queue, hosts in QUEUES.items():
            for host in hosts:
                command = f"nsenter --target {slurm.hosts[host].pid} --net".split()
                kind, life_cycle = INSTANCES[queue]
                command += [sys.executable, program, str(head.port), kind, life_cycle]
                started = stack.enter_context(
                    subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True)
                )
                assert started.stdout is not None
                assert started.stdout.readline() == "ready\n", f"no metadata on {host}"
        yield head.environment


def profile(place):
    """The profile with this cluster's disk, and a quicker look at jobs."""
    text = PROFILE.read_text()
    for old, new in (
        ("scratch: \"'/scratch'\"", f"scratch: \"'{place.slurm.scratch}'\""),
        ("before-status-checks: 5", "before-status-checks: 1"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    profile = place.directory / "profile"
    profile.mkdir()
    (profile / "config.yaml").write_text(text)
    return profile


def analysed(results):
    """All tables and figures; Snakemake notes the time of its directories in a hidden file."""
    made = [path for name in ("analysis", "figures") for path in results.glob(f"{name}/[!.]*")]
    made.append(results / "summary.csv")
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(made)}


@pytest.mark.long(
    "Slurm starts some twenty jobs, and tells after a while that a host is lost", limit=1200
)
def test_from_a_prefix_to_a_publication_and_back(place, s3, instances, monkeypatch, tmp_path):
    for name, value in {**s3.environment, **instances}.items():
        monkeypatch.setenv(name, value)
    bucket, client = s3.bucket("storewise-test"), s3.client()
    for path in SMALL[:2]:
        client.put_object(Bucket=bucket, Key=f"corpus/{path.name}", Body=path.read_bytes())
    for path in (place.directory / "data").iterdir():
        path.unlink()
    place.write_study(STUDY.format(bucket=bucket))
    # Listed and digested here: four jobs one after the other, each of which Slurm has to start.
    done = place.run(Workspace(place.directory).command("--until", "shard"))
    assert done.returncode == 0, done.stdout + done.stderr
    run = place.start(place.storewise_command("run", "s.yaml", "--profile", str(profile(place))))

    lost: list[str] = []

    def ended():
        if not lost and place.trial_at_work("read", workers=1) is not None:
            servers = {member.host for member, _ in place.servers().values()}
            if servers & set(QUEUES["data"]):
                lost.extend(servers)
                place.slurm.end_host(lost[0], "instance-terminated")
        return run.poll() is not None

    wait_until(ended, 900, "the end of the study")
    output = place.output()
    assert run.returncode == 0, output

    # One session failed; its trial was measured on another host of its class.
    (reason,) = place.failures()
    (gone,) = lost
    assert re.fullmatch(rf"node lost its host {gone}: Slurm says .*NODE_FAIL.*", reason), reason
    assert gone in QUEUES["data"]
    place.verified(2)
    page = (place.results / "report.html").read_text()
    assert reason in page

    # What the hosts were, and what that costs, is as each of them says.
    for kind, life_cycle in INSTANCES.values():
        assert f"{kind}, {life_cycle}, zone eu-central-1b, image ami-0abcdef1234567890" in page
    prices = yaml.safe_load((ROOT / "config" / "prices.yaml").read_text())["instances"]
    summary = pd.read_csv(place.results / "analysis" / "summary.csv")
    means = summary.pivot_table(index=["node_class", "phase"], columns="measure", values="mean")
    for node_class, kind in (("data", "i4i.2xlarge"), ("large", "i4i.8xlarge")):
        mine = means.loc[node_class]
        hour = (prices["c7i.8xlarge"]["spot"] + prices[kind]["on_demand"]) / 2
        result = mine["money_per_million"] / mine["host_hours_per_million"]
        assert set(result.dropna().index) == {"write", "read"}
        assert result.dropna().to_numpy() == pytest.approx(hour)

    # The study's classes are a factor of every table.
    nodes = pd.read_csv(place.results / "analysis" / "nodes.csv")
    assert set(summary["node_class"]) == {"data", "large"}
    trials = pd.read_csv(place.results / "analysis" / "trials.csv").set_index("trial")
    placed = dict(zip(trials.loc[nodes["trial"], "node_class"], nodes["host"], strict=True))
    (left,) = set(QUEUES["data"]) - {gone}
    assert placed == {"data": left, "large": "sw3"} and len(nodes) == 2
    assert set(trials["host"]) == set(QUEUES["work"])

    # Everything is in one folder, told at the end.
    (folder,) = [
        line.split()[-1] for line in output.splitlines() if line.startswith("Published: s3://")
    ]
    # Elsewhere, from nothing but the folder: the same figures.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pulled = place.storewise("pull", folder, str(elsewhere))
    assert pulled.returncode == 0, pulled.stderr
    client.delete_objects(
        Bucket=bucket,
        Delete={"Objects": [{"Key": f"corpus/{path.name}"} for path in SMALL[:2]]},
    )
    again = Workspace(elsewhere, study="results/s/config/s").snakemake("analysis")
    assert again.returncode == 0, again.stdout + again.stderr
    here, there = analysed(place.results), analysed(elsewhere / "results" / "s")
    assert here.keys() ^ there.keys() == set() and len(here) > 20
    assert [name for name in here if here[name] != there[name]] == []
