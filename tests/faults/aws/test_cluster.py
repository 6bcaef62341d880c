"""profiles/aws/cluster.yaml, as ParallelCluster itself reads it, and what we promise of it."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import yaml
from support.needs import unavailable
from support.paths import ROOT
from support.profiles import node_resources, settings
from support.s3.server import S3Server

from storewise.estimate.estimate import IDLE
from storewise.study.host_classes import parse_classes
from storewise.study.load import load_study
from storewise.study.trial import node_jobs

AWS = ROOT / "profiles" / "aws"
CLUSTER = (AWS / "cluster.yaml").read_text()
README = (AWS / "README.md").read_text()
LOADER = ROOT / "tests" / "support" / "parallelcluster" / "load.py"
#: First line of an option: what it is called. Its lines, commented out, follow.
OPTION = re.compile(r"^ *#\| (\w+):", re.MULTILINE)
OPTIONS = OPTION.findall(CLUSTER)
#: What its user takes out for an option, as its first line says.
INSTEAD_OF = {
    "efs": r"  - Name: shared\n(?: {4}.*\n){3}",
    "ebs": r" {10}RootVolume: .*\n {10}EphemeralVolume: .*\n(?= *#\| ebs)",
}


def python():
    """The Python that has ParallelCluster: its own environment, `make test SLOW=1`."""
    python_of_cluster = os.environ.get("STOREWISE_PARALLELCLUSTER_PYTHON")
    path = (
        Path(python_of_cluster)
        if python_of_cluster
        else Path(sys.prefix) / "parallelcluster" / "bin" / "python"
    )
    if not path.exists():
        unavailable(f"{path} does not exist; `make test SLOW=1` makes it")
    return path


def loaded(text, program=LOADER, **extra):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    command = [str(python()), "-W", "ignore", str(program)]
    return subprocess.run(
        command,
        input=text,
        env={**environment, **extra},
        capture_output=True,
        text=True,
        timeout=600,
    )


@cache
def cluster(text=CLUSTER):
    """What ParallelCluster makes of a configuration."""
    done = loaded(text)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def with_option(name):
    """The configuration with one option, as its user takes the `#` off (and other lines out)."""
    text, gone = re.subn(INSTEAD_OF.get(name, "$^"), "", CLUSTER)
    assert gone == (name in INSTEAD_OF)
    lines, taken = text.splitlines(), []
    inside = False
    for line in lines:
        bare = line.lstrip()
        if result := OPTION.match(line):
            inside = result[1] == name
        elif not bare.startswith("#"):
            inside = False
        if inside and not bare.startswith("#|"):
            line = line.replace("# ", "", 1)
        taken.append(line)
    return "\n".join(taken) + "\n"


def test_the_loader_refuses_what_parallelcluster_refuses():
    done = loaded(CLUSTER.replace("ScaledownIdletime", "ScaledownIdleTime"))
    assert done.returncode == 1
    assert "ScaledownIdleTime" in done.stderr and "Unknown field" in done.stderr
    assert loaded(CLUSTER.replace("CapacityType: SPOT", "CapacityType: CHEAP")).returncode == 1


def test_nothing_is_open_to_the_world():
    result = cluster()
    # ParallelCluster's own groups: the head node's lets in what AllowedIps names, to port 22, and
    # all groups each other. A group of one's own could let in more.
    assert result["head"]["allowed_ips"] == "127.0.0.1/32"
    for place in (result["head"], *result["queues"]):
        assert set(place["networking"].values()) == {None}, place
    assert not result["login_nodes"] and not result["head"]["desktop"]
    assert result["head"]["key_name"] is None
    policies = result["head"]["access"]["policies"]
    assert policies == ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]
    assert result["imds"] == "v2.0" and result["head"]["secured"]
    assert all(queue["root"]["encrypted"] for queue in result["queues"])
    # The silent default that this file replaces.
    without = "\n".join(x for x in CLUSTER.splitlines() if not re.match(r" *(Ssh|AllowedIps):", x))
    assert cluster(without)["head"]["allowed_ips"] == "0.0.0.0/0"


def test_queues_go_from_none_to_some_and_back():
    result = cluster()
    queues = {queue["name"]: queue for queue in result["queues"]}
    assert list(queues) == ["data", "data-large", "work"]
    for queue in queues.values():
        (resource,) = queue["resources"]
        assert resource["min"] == 0 < resource["max"]
        assert resource["placement_group"] is True
        assert len(resource["types"]) == 1, "hosts that differ cannot be compared"
        assert queue["subnets"] == [result["head"]["subnet"]]
    assert {name for name, queue in queues.items() if queue["spot"]} == {"work"}
    # What `storewise cost` counts with.
    assert 60 * result["idle_minutes"] == IDLE
    assert result["slurm"] == {"MinJobAge": 300}
    assert not {key.lower() for key in result["slurm"]} & set(result["denied"])


def test_all_of_it_can_be_found_and_goes_with_the_cluster():
    result = cluster()
    assert result["tags"].keys() == {"study", "owner"}
    assert [place["deletion"] for place in result["storage"]] == ["Delete"]
    assert result["logs"] == {"deletion": "Delete", "dashboard": False}
    # Else ParallelCluster makes a bucket that it never deletes.
    assert result["bucket"] == "my-storewise-bucket"


def test_the_shared_file_system_and_its_options():
    assert sorted(OPTIONS) == ["ebs", "efs", "fsx", "snapshot"]
    (shared,) = cluster()["storage"]
    assert (shared["type"], shared["mount"]) == ("ebs", "/shared")
    kinds = {"snapshot": "ebs", "efs": "efs", "fsx": "fsx"}
    for name, kind in kinds.items():
        *rest, result = cluster(with_option(name))["storage"]
        assert [one["mount"] for one in rest] == ([] if name == "efs" else ["/shared"])
        assert (result["mount"] == "/shared") == (name == "efs") and result["deletion"] == "Delete"
        assert result["type"].lower().startswith(kind), name
        assert (result["snapshot"] is not None) == (name == "snapshot")
    large = {q["name"]: q["root"]["size"] for q in cluster(with_option("ebs"))["queues"]}
    assert large == {"data": 500, "data-large": 500, "work": None}


def test_buckets_and_bootstrap():
    result = cluster()
    bucket = result["bucket"]
    script, *arguments = result["head"]["action"]
    assert script == f"s3://{bucket}/storewise/bootstrap.sh"
    assert arguments == ["head", f"s3://{bucket}/storewise/storewise.tar.gz", result["region"]]
    assert result["head"]["access"]["buckets"] == {bucket: True}
    for queue in result["queues"]:
        assert queue["action"] == [script, "compute"]
        # Publications go up from the head node, where rule `publish` runs.
        assert queue["access"]["buckets"] == {bucket: False}


def test_parallelcluster_would_make_it(monkeypatch):
    """Its validators, which `pcluster create-cluster` asks first, with moto as AWS."""
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    with S3Server() as server:
        aws = {**server.environment, "AWS_ENDPOINT_URL": server.endpoint}
        for name, value in aws.items():
            monkeypatch.setenv(name, value)
        session = boto3.Session()
        subnets = session.client("ec2").describe_subnets()["Subnets"]
        snapshot = session.client("ec2").create_volume(AvailabilityZone="us-east-1a", Size=10)
        snapshot = session.client("ec2").create_snapshot(VolumeId=snapshot["VolumeId"])
        ours = {
            "subnet-0123456789abcdef0": min(subnets, key=lambda x: x["AvailabilityZone"])[
                "SubnetId"
            ],
            "snap-0123456789abcdef0": snapshot["SnapshotId"],
        }
        client = session.client("s3")
        bucket = "my-storewise-bucket"
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="storewise/bootstrap.sh", Body=b"")

        def errors(*texts):
            for old, new in ours.items():
                texts = tuple(text.replace(old, new) for text in texts)
            done = loaded(json.dumps(texts), LOADER.with_name("validate.py"), **aws)
            assert done.returncode == 0, done.stderr
            result: list[list[str]] = json.loads(done.stdout)
            return result

        # A bucket as `aws s3 mb` makes it will not do; the README's next two commands make it so.
        ((refused,),) = errors(CLUSTER)
        assert "my-storewise-bucket" in refused and "versioning" in refused
        (status,) = re.findall(r"--versioning-configuration Status=(\w+)", README)
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        (rules,) = re.findall(r"--lifecycle-configuration '(.*?)'", README, re.DOTALL)
        client.put_bucket_lifecycle_configuration(
            Bucket=bucket, LifecycleConfiguration=json.loads(rules)
        )
        (rule,) = client.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        assert {"NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"} <= rule.keys()
        assert errors(CLUSTER, *map(with_option, OPTIONS)) == [[]] * (1 + len(OPTIONS))


def test_the_profile_means_this_cluster():
    result = cluster()
    classes = parse_classes(node_resources(AWS)["node_classes"])
    assert list(classes) == ["data", "large", "work"]
    queues = {
        queue["name"]: (queue["resources"][0]["types"][0], queue["spot"])
        for queue in result["queues"]
    }
    message = {c.partition: (c.instance, c.market == "spot") for c in classes.values()}
    assert message == queues
    python_of_cluster = yaml.safe_load((AWS / "config.yaml").read_text())
    assert (
        python_of_cluster["default-resources"]["slurm_partition"]
        == f"'{classes['work'].partition}'"
    )
    assert node_resources(AWS)["scratch"] == "/scratch"
    assert {q["name"]: q["scratch"] for q in result["queues"]} == {
        **dict.fromkeys(("data", "data-large"), "/scratch"),
        "work": None,
    }
    # squeue remembers for three times as long as the plugin needs for a look.
    seconds = int(settings("profiles/aws")["slurm_init_seconds_before_status_checks"])
    assert int(result["slurm"]["MinJobAge"]) >= 3 * max(seconds, 40)


def test_prices_know_every_type():
    prices = yaml.safe_load((ROOT / "config" / "prices.yaml").read_text())["instances"]
    result = cluster()
    assert "on_demand" in prices[result["head"]["type"]]
    for queue in result["queues"]:
        for kind in queue["resources"][0]["types"]:
            assert {"on_demand", "spot"} <= prices[kind].keys(), kind
    # Those of the README's table are the same.
    table = re.findall(r"^\|[^|]*, (\w+\.\w+)(, spot)? \|[^|]*\| ([\d.]+) \|", README, re.MULTILINE)
    assert len(table) == 4
    for kind, spot, hour in table:
        assert f"{prices[kind]['spot' if spot else 'on_demand']:.2f}" == hour, kind


def test_there_is_room_for_the_published_studies():
    """Slurm refuses what an instance has not, and ParallelCluster starts no more than MaxCount."""
    have = {"i4i.2xlarge": (8, 64), "c7i.8xlarge": (32, 64)}  # processors, GiB
    queues = {queue["name"]: queue["resources"][0] for queue in cluster()["queues"]}
    data, work = (have[queues[name]["types"][0]] for name in ("data", "work"))
    larger = []
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml")):
        if "paper" not in yaml.safe_load(path.read_text()).get("scales", {}):
            continue
        for trial in load_study(path.stem, scale="paper", root=ROOT).trials():
            nodes = node_jobs(trial)
            assert len(nodes) <= queues["data"]["max"] and trial.workers <= queues["work"]["max"]
            for node in nodes:
                assert node.threads <= data[0], path
                assert node.memory_mb + 256 <= 0.95 * 1024 * data[1], path
            if trial.processes > work[0]:
                larger.append((path.stem, trial.processes))
    assert {f"`{name}`" in README for name, _ in larger} == {True}
    assert {name for name, _ in larger} == {"niec2014-workers"}
