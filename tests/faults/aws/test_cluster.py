"""profiles/aws/cluster.yaml: what we promise of it, and that ParallelCluster would make it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
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
VALIDATE = ROOT / "tests" / "support" / "parallelcluster" / "validate.py"
#: First line of an option: what it is called. Its lines, commented out, follow.
OPTION = re.compile(r"^ *#\| (\w+):", re.MULTILINE)
OPTIONS = OPTION.findall(CLUSTER)
#: What its user takes out for an option, as its first line says.
INSTEAD_OF = {
    "efs": r"  - Name: shared\n(?: {4}.*\n){3}",
    "ebs": r" {10}RootVolume: .*\n {10}EphemeralVolume: .*\n(?= *#\| ebs)",
}


@pytest.fixture
def cluster():
    return yaml.safe_load(CLUSTER)


@pytest.fixture
def queues(cluster):
    return {queue["Name"]: queue for queue in cluster["Scheduling"]["SlurmQueues"]}


def with_option(name):
    """The configuration with one option, as its user takes the `#` off (and other lines out)."""
    text, gone = re.subn(INSTEAD_OF.get(name, "$^"), "", CLUSTER)
    assert gone == (name in INSTEAD_OF)
    taken, inside = [], False
    for line in text.splitlines():
        bare = line.lstrip()
        if result := OPTION.match(line):
            inside = result[1] == name
        elif not bare.startswith("#"):
            inside = False
        if inside and not bare.startswith("#|"):
            line = line.replace("# ", "", 1)
        taken.append(line)
    return "\n".join(taken) + "\n"


def test_nothing_is_open_to_the_world(cluster, queues):
    # ParallelCluster's own groups: the head node's lets in what AllowedIps names, to port 22, and
    # all groups each other. A group of one's own could let in more, a key or a desktop, too.
    head = cluster["HeadNode"]
    assert head["Ssh"] == {"AllowedIps": "127.0.0.1/32"}
    assert head["Networking"].keys() == {"SubnetId"}
    assert "Dcv" not in head and "LoginNodes" not in cluster
    policy = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    assert head["Iam"]["AdditionalIamPolicies"] == [{"Policy": policy}]
    assert cluster["Imds"]["ImdsSupport"] == "v2.0" and head["Imds"]["Secured"]
    for queue in queues.values():
        assert queue["Networking"].keys() == {"SubnetIds", "PlacementGroup"}
        assert queue["ComputeSettings"]["LocalStorage"]["RootVolume"]["Encrypted"]


def test_queues_go_from_none_to_some_and_back(cluster, queues):
    assert list(queues) == ["data", "data-large", "work"]
    for queue in queues.values():
        (resource,) = queue["ComputeResources"]
        assert resource["MinCount"] == 0 < resource["MaxCount"]
        assert queue["Networking"]["PlacementGroup"] == {"Enabled": True}
        assert queue["Networking"]["SubnetIds"] == [cluster["HeadNode"]["Networking"]["SubnetId"]]
    spot = {name for name, queue in queues.items() if queue["CapacityType"] == "SPOT"}
    assert spot == {"work"}
    # What `storewise cost` counts with.
    assert 60 * cluster["Scheduling"]["SlurmSettings"]["ScaledownIdletime"] == IDLE


def test_all_of_it_can_be_found_and_goes_with_the_cluster(cluster):
    assert {tag["Key"] for tag in cluster["Tags"]} == {"study", "owner"}
    logs = cluster["Monitoring"]
    assert logs["Logs"]["CloudWatch"]["DeletionPolicy"] == "Delete"
    assert not logs["Dashboards"]["CloudWatch"]["Enabled"]
    # Else ParallelCluster makes a bucket that it never deletes.
    assert cluster["CustomS3Bucket"] == "my-storewise-bucket"


def test_the_shared_file_system_and_its_options():
    assert sorted(OPTIONS) == ["ebs", "efs", "fsx", "snapshot"]
    kinds = {"none": "Ebs", "snapshot": "Ebs", "efs": "Efs", "fsx": "FsxLustre"}
    for name, kind in kinds.items():
        storage = yaml.safe_load(with_option(name))["SharedStorage"]
        assert "/shared" in {one["MountDir"] for one in storage}
        assert len(storage) == (1 if name in ("none", "efs") else 2)
        assert storage[-1]["StorageType"] == kind
        for one in storage:
            assert one[f"{one['StorageType']}Settings"]["DeletionPolicy"] == "Delete"
    queues = yaml.safe_load(with_option("ebs"))["Scheduling"]["SlurmQueues"]
    roots = [queue["ComputeSettings"]["LocalStorage"]["RootVolume"].get("Size") for queue in queues]
    assert roots == [500, 500, None]


def test_buckets_and_bootstrap(cluster, queues):
    bucket, head = cluster["CustomS3Bucket"], cluster["HeadNode"]
    action = head["CustomActions"]["OnNodeConfigured"]
    assert action["Script"] == f"s3://{bucket}/storewise/bootstrap.sh"
    tree = f"s3://{bucket}/storewise/storewise.tar.gz"
    assert action["Args"] == ["head", tree, cluster["Region"]]
    assert head["Iam"]["S3Access"] == [{"BucketName": bucket, "EnableWriteAccess": True}]
    for queue in queues.values():
        own = queue["CustomActions"]["OnNodeConfigured"]
        assert own == {"Script": action["Script"], "Args": ["compute"]}
        # Publications go up from the head node, where rule `publish` runs.
        assert queue["Iam"]["S3Access"] == [{"BucketName": bucket}]


def validated(*texts, **environment):
    """The errors that ParallelCluster itself reports of each configuration, one list for each."""
    own = os.environ.get("STOREWISE_PARALLELCLUSTER_PYTHON")
    python = Path(own or Path(sys.prefix) / "parallelcluster" / "bin" / "python")
    if not python.exists():
        unavailable(f"{python} does not exist; `make test SLOW=1` makes it")
    return subprocess.run(
        [str(python), "-W", "ignore", str(VALIDATE)],
        input=json.dumps(texts),
        env={k: v for k, v in os.environ.items() if not k.startswith("AWS_")} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


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
        subnet = min(subnets, key=lambda x: x["AvailabilityZone"])
        ours = {
            "subnet-0123456789abcdef0": subnet["SubnetId"],
            "snap-0123456789abcdef0": snapshot["SnapshotId"],
        }
        client = session.client("s3")
        bucket = "my-storewise-bucket"
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="storewise/bootstrap.sh", Body=b"")

        def errors(*texts):
            for old, new in ours.items():
                texts = tuple(text.replace(old, new) for text in texts)
            done = validated(*texts, **aws)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

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
        # ParallelCluster's schema allows no other key.
        wrong = validated(CLUSTER.replace("ScaledownIdletime", "ScaledownIdleTime"), **aws)
        assert "ScaledownIdleTime" in wrong.stderr and "Unknown field" in wrong.stderr


def test_the_profile_means_this_cluster(cluster, queues):
    classes = parse_classes(node_resources(AWS)["node_classes"])
    assert list(classes) == ["data", "large", "work"]
    for known, queue in zip(classes.values(), queues.values(), strict=True):
        assert known.partition == queue["Name"]
        assert known.instance == queue["ComputeResources"][0]["InstanceType"]
        assert (known.market == "spot") == (queue["CapacityType"] == "SPOT")
        disks = queue["ComputeSettings"]["LocalStorage"]
        scratch = {"MountDir": node_resources(AWS)["scratch"]}
        assert disks.get("EphemeralVolume") == (scratch if queue["Name"] != "work" else None)
    default = yaml.safe_load((AWS / "config.yaml").read_text())["default-resources"]
    assert default["slurm_partition"] == f"'{classes['work'].partition}'"
    # squeue remembers for three times as long as the plugin needs for a look.
    seconds = int(settings("profiles/aws")["slurm_init_seconds_before_status_checks"])
    (remembers,) = cluster["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"]
    assert remembers["MinJobAge"] >= 3 * max(seconds, 40)


def test_prices_know_every_type(cluster, queues):
    prices = yaml.safe_load((ROOT / "config" / "prices.yaml").read_text())["instances"]
    assert "on_demand" in prices[cluster["HeadNode"]["InstanceType"]]
    for queue in queues.values():
        kind = queue["ComputeResources"][0]["InstanceType"]
        assert {"on_demand", "spot"} <= prices[kind].keys(), kind
    # Those of the README are the same.
    table = re.findall(r"\((\w+\.\w+)(, spot)?\) ([\d.]+)", README)
    assert len(table) == 4
    for kind, spot, hour in table:
        assert f"{prices[kind]['spot' if spot else 'on_demand']:.2f}" == hour, kind


def test_there_is_room_for_the_published_studies(queues):
    """Slurm refuses what an instance has not, and ParallelCluster starts no more than MaxCount."""
    have = {"i4i.2xlarge": (8, 64), "c7i.8xlarge": (32, 64)}  # processors, GiB
    hosts = {name: queue["ComputeResources"][0] for name, queue in queues.items()}
    data, work = (have[hosts[name]["InstanceType"]] for name in ("data", "work"))
    larger = []
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml")):
        if "paper" not in yaml.safe_load(path.read_text()).get("scales", {}):
            continue
        for trial in load_study(path.stem, scale="paper", root=ROOT).trials():
            nodes = node_jobs(trial)
            assert len(nodes) <= hosts["data"]["MaxCount"]
            assert trial.workers <= hosts["work"]["MaxCount"]
            for node in nodes:
                assert node.threads <= data[0], path
                assert node.memory_mb + 256 <= 0.95 * 1024 * data[1], path
            if trial.processes > work[0]:
                larger.append((path.stem, trial.processes))
    assert {f"`{name}`" in README for name, _ in larger} == {True}
    assert {name for name, _ in larger} == {"niec2014-workers"}
