"""profiles/aws/cluster.yaml, as ParallelCluster itself reads it, and what we promise of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import ROOT, unavailable
from test_profiles import node_resources, settings

from storewise.config import load_study
from storewise.nodeclasses import parse_classes

AWS = ROOT / "profiles" / "aws"
CLUSTER = (AWS / "cluster.yaml").read_text()
LOADER = ROOT / "tests" / "parallelcluster" / "load.py"
#: First line of an option: what it is called. Its lines, commented out, follow.
OPTION = re.compile(r"^ *#\| (\w+):", re.MULTILINE)
OPTIONS = OPTION.findall(CLUSTER)


def python() -> Path:
    """The Python that has ParallelCluster: its own environment, `make test-env`."""
    own = os.environ.get("STOREWISE_PARALLELCLUSTER_PYTHON")
    path = Path(own) if own else Path(sys.prefix) / "parallelcluster" / "bin" / "python"
    if not path.exists():
        unavailable(f"{path} does not exist; `make test-env` makes it")
    return path


def loaded(text: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    command = [str(python()), "-W", "ignore", str(LOADER)]
    return subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, timeout=60
    )


@cache
def cluster(text: str = CLUSTER) -> dict[str, Any]:
    """What ParallelCluster makes of a configuration."""
    done = loaded(text)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def with_option(name: str) -> str:
    """The configuration with one option, as its user takes the `#` off."""
    lines, taken = CLUSTER.splitlines(), []
    inside = False
    for line in lines:
        bare = line.lstrip()
        if found := OPTION.match(line):
            inside = found[1] == name
        elif not bare.startswith("#"):
            inside = False
        if inside and not bare.startswith("#|"):
            line = line.replace("# ", "", 1)
        taken.append(line)
    return "\n".join(taken) + "\n"


def test_the_loader_refuses_what_parallelcluster_refuses() -> None:
    done = loaded(CLUSTER.replace("ScaledownIdletime", "ScaledownIdleTime"))
    assert done.returncode == 1
    assert "ScaledownIdleTime" in done.stderr and "Unknown field" in done.stderr
    assert loaded(CLUSTER.replace("CapacityType: SPOT", "CapacityType: CHEAP")).returncode == 1


def test_nothing_is_open_to_the_world() -> None:
    found = cluster()
    # ParallelCluster's own groups: the head node's lets in what AllowedIps names, to port 22, and
    # all groups each other. A group of one's own could let in more.
    assert found["head"]["allowed_ips"] == "127.0.0.1/32"
    for place in (found["head"], *found["queues"]):
        assert set(place["networking"].values()) == {None}, place
    assert not found["login_nodes"] and not found["head"]["desktop"]
    assert found["head"]["key_name"] is None
    policies = found["head"]["access"]["policies"]
    assert policies == ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]
    assert found["imds"] == "v2.0" and found["head"]["secured"]
    assert all(queue["root"]["encrypted"] for queue in found["queues"])
    # The silent default that this file replaces.
    without = "\n".join(x for x in CLUSTER.splitlines() if not re.match(r" *(Ssh|AllowedIps):", x))
    assert cluster(without)["head"]["allowed_ips"] == "0.0.0.0/0"


def test_queues_go_from_none_to_some_and_back() -> None:
    found = cluster()
    queues = {queue["name"]: queue for queue in found["queues"]}
    assert list(queues) == ["data", "data-large", "work"]
    for queue in queues.values():
        (resource,) = queue["resources"]
        assert resource["min"] == 0 < resource["max"]
        assert resource["placement_group"] is True
        assert len(resource["types"]) == 1, "hosts that differ cannot be compared"
        assert queue["subnets"] == [found["head"]["subnet"]]
    assert {name for name, queue in queues.items() if queue["spot"]} == {"work"}
    assert found["idle_minutes"] == 10
    assert found["slurm"] == {"MinJobAge": 300}
    assert not {key.lower() for key in found["slurm"]} & set(found["denied"])


def test_all_of_it_can_be_found_and_goes_with_the_cluster() -> None:
    found = cluster()
    assert found["tags"].keys() == {"study", "owner"}
    assert [place["deletion"] for place in found["storage"]] == ["Delete"]
    assert found["logs"] == {"deletion": "Delete", "dashboard": False}
    # Else ParallelCluster makes a bucket that it never deletes.
    assert found["bucket"] == "my-storewise-bucket"


def test_the_shared_file_system_and_its_options() -> None:
    assert sorted(OPTIONS) == ["ebs", "efs", "fsx", "snapshot"]
    (shared,) = cluster()["storage"]
    assert (shared["type"], shared["mount"]) == ("ebs", "/shared")
    kinds = {"snapshot": "ebs", "efs": "efs", "fsx": "fsx"}
    for name, kind in kinds.items():
        found = cluster(with_option(name))["storage"]
        assert len(found) == 2 and found[1]["deletion"] == "Delete"
        assert found[1]["type"].lower().startswith(kind), name
        assert (found[1]["snapshot"] is not None) == (name == "snapshot")
    large = {q["name"]: q["root"]["size"] for q in cluster(with_option("ebs"))["queues"]}
    assert large == {"data": 500, "data-large": 500, "work": 45}


def test_buckets_and_bootstrap() -> None:
    found = cluster()
    bucket = found["bucket"]
    script, *arguments = found["head"]["action"]
    assert script == f"s3://{bucket}/storewise/bootstrap.sh"
    assert arguments == ["head", f"s3://{bucket}/storewise/storewise.tar.gz"]
    assert found["head"]["access"]["buckets"] == {bucket: True}
    for queue in found["queues"]:
        assert queue["action"] == [script, "compute"]
        # Workers publish; servers only read.
        assert queue["access"]["buckets"] == {bucket: queue["name"] == "work"}


def test_few_values_are_to_be_set_and_marked() -> None:
    marked = [line for line in CLUSTER.splitlines() if "# SET" in line]
    keys = [re.match(r"[ -]*\{?(?:Key: )?(\w+)", line) for line in marked]
    assert [key and key[1] for key in keys] == [
        *("Region", "study", "owner", "CustomS3Bucket", "SubnetId", "Script", "Args"),
    ]
    # What is unmarked must not have to be changed.
    for placeholder in ("my-storewise-bucket", "subnet-0", "example.org", "us-east-1"):
        lines = [x for x in CLUSTER.splitlines() if placeholder in x and "ImportPath" not in x]
        assert lines and all(line in marked for line in lines), placeholder


def test_the_profile_means_this_cluster() -> None:
    found = cluster()
    classes = parse_classes(node_resources(AWS)["node_classes"])
    assert list(classes) == ["data", "large", "work"]
    queues = {
        queue["name"]: (queue["resources"][0]["types"][0], queue["spot"])
        for queue in found["queues"]
    }
    told = {c.partition: (c.instance, c.market == "spot") for c in classes.values()}
    assert told == queues
    own = yaml.safe_load((AWS / "config.yaml").read_text())
    assert own["default-resources"]["slurm_partition"] == f"'{classes['work'].partition}'"
    assert node_resources(AWS)["scratch"] == "/scratch"
    assert {q["name"]: q["scratch"] for q in found["queues"]} == {
        **dict.fromkeys(("data", "data-large"), "/scratch"),
        "work": None,
    }
    # squeue remembers for three times as long as the plugin needs for a look.
    seconds = int(settings("profiles/aws")["slurm_init_seconds_before_status_checks"])
    assert int(found["slurm"]["MinJobAge"]) >= 3 * max(seconds, 40)


def test_prices_know_every_type() -> None:
    prices = yaml.safe_load((ROOT / "config" / "prices.yaml").read_text())["instances"]
    found = cluster()
    assert "on_demand" in prices[found["head"]["type"]]
    for queue in found["queues"]:
        for kind in queue["resources"][0]["types"]:
            assert {"on_demand", "spot"} <= prices[kind].keys(), kind


def test_the_study_of_the_readme_is_one(tmp_path: Path) -> None:
    text = (AWS / "README.md").read_text()
    (written,) = re.findall(r"cat > mine.yaml <<'END'\n(.*?)\nEND\n", text, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(written)
    study = load_study(tmp_path / "mine.yaml", root=ROOT)
    assert study.publish is not None and study.max_cost is not None
    # A node's memory, and what Storewise takes beside it, fit what Slurm gives of 64 GiB (95 %).
    assert {t.node_memory_mb for t in study.trials()} == {61440}
    assert 61440 + 256 <= 0.95 * 64 * 1024


# ------------------------------------------------------------------ bootstrap.sh

SERVERS = ("postgresql", "mysql-server", "mongodb")
FAKES = {
    "curl": """\
file=${!#}; name=${file##*/}
[ -z "${FAKE_BROKEN:-}" ] || { echo broken >"$name"; exit 0; }
case $name in
    *.sha256) sha256sum "${name%.sha256}" >"$name" ;;
    *) cp "$FAKES/installer" "$name" ;;
esac
""",
    "installer": """\
mkdir -p "$3/bin"; cp "$FAKES/conda" "$3/bin/conda"
""",
    "conda": """\
while [ $# -gt 0 ]; do
    [ "$1" != --prefix ] || { mkdir -p "$2/bin"; cp "$FAKES/aws" "$FAKES/make" "$2/bin/"; }
    [ "$1" != "${FAKE_MISSING:-none}" ] || { echo "no such package" >&2; exit 1; }
    shift
done
""",
    "aws": """\
[ "$1 $2" = "s3 cp" ] && cp "$SOURCE" "${!#}"
""",
    "make": """\
[ "$5" != env ] && [ "$4" != env ] || { mkdir -p "$2/.venv/bin"; touch "$2/.venv/bin/storewise"; }
""",
    "sysctl": "",
    "chown": "",
}


@pytest.fixture
def host(tmp_path: Path) -> dict[str, str]:
    """An environment in which bootstrap.sh touches only `tmp_path`, and fetches from here."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name, body in FAKES.items():
        (fakes / name).write_text(f'#!/bin/bash\necho "{name} $*" >>"$FAKES/log"\n{body}')
        (fakes / name).chmod(0o755)
    for folder in ("security/limits.d", "sysctl.d", "profile.d"):
        (tmp_path / "etc" / folder).mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "Makefile").write_text("env:\n")
    source = tmp_path / "source.tar.gz"
    subprocess.run(["tar", "-czf", source, "-C", tmp_path / "tree", "."], check=True)
    return {
        "PATH": f"{fakes}:/usr/bin:/bin",
        "FAKES": str(fakes),
        "SOURCE": str(source),
        "STOREWISE_SHARED": str(tmp_path / "shared"),
        "STOREWISE_SCRATCH": str(tmp_path / "scratch"),
        "STOREWISE_ETC": str(tmp_path / "etc"),
    }


def bootstrap(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(AWS / "bootstrap.sh"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_bootstrap_of_the_head_node_once_and_again(host: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "fakes" / "log"
    for again in (False, True):
        log.write_text("")
        done = bootstrap(host, "head", "s3://bucket/storewise.tar.gz")
        assert done.returncode == 0, done.stderr
        assert ("installer -b -p" in log.read_text()) is not again, "what is there stays"
        assert ("aws s3 cp" in log.read_text()) is not again
    home = tmp_path / "shared" / "storewise"
    assert (home / "checkout" / "Makefile").is_file()
    script = f'. {tmp_path}/etc/profile.d/storewise.sh; echo "$PATH"'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    places = ("checkout/.venv/bin", *(f"envs/{n}/bin" for n in ("base", *SERVERS)))
    assert shown.stdout.startswith(":".join(f"{home}/{place}" for place in places))
    assert "ubuntu:ubuntu" in log.read_text()
    assert (tmp_path / "shared" / "studies").is_dir()


def test_bootstrap_of_a_compute_host(host: dict[str, str], tmp_path: Path) -> None:
    done = bootstrap(host, "compute")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert (
        "nofile" in (tmp_path / "etc" / "security" / "limits.d" / "90-storewise.conf").read_text()
    )
    assert "curl" not in (tmp_path / "fakes" / "log").read_text(), "nothing is fetched"


def test_bootstrap_ends_with_a_reason(host: dict[str, str], tmp_path: Path) -> None:
    for words in ((), ("head",), ("worker",)):
        done = bootstrap(host, *words)
        assert done.returncode == 1 and "usage: bootstrap.sh" in done.stderr
    broken = bootstrap({**host, "FAKE_BROKEN": "1"}, "head", "s3://bucket/x")
    assert broken.returncode == 1 and "not what its checksum says" in broken.stderr
    assert not (tmp_path / "shared" / "storewise" / "conda").exists()
    # A server that cannot be had is no reason to have none; the base is.
    some = bootstrap({**host, "FAKE_MISSING": "mongodb"}, "head", "s3://bucket/x")
    assert some.returncode == 0 and "no mongodb: what conda said" in some.stdout
    envs = tmp_path / "shared" / "storewise" / "envs"
    assert {path.parent.name for path in envs.glob("*/.made")} == {"base", *SERVERS[:2]}
    (envs / "base" / ".made").unlink()
    none = bootstrap({**host, "FAKE_MISSING": "maven"}, "head", "s3://bucket/x")
    assert none.returncode == 1 and "an environment could not be made" in none.stderr
    shutil.rmtree(tmp_path / "shared")
    gone = bootstrap({**host, "SOURCE": "/nowhere"}, "head", "s3://bucket/x")
    assert gone.returncode == 1 and "s3://bucket/x could not be read" in gone.stderr
