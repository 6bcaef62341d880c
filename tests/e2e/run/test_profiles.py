"""Profiles: what Snakemake makes of each."""

import os
import re
from functools import cache

import pytest
from support.paths import ROOT
from support.profiles import node_resources, settings

from storewise.schedulers.pbs import parse_selects
from storewise.study.host_classes import parse_classes

SHIPPED = ["aws", "local", "pbs", "slurm"]


@cache
def shipped(name):
    return settings(f"profiles/{name}")


@pytest.mark.parametrize("name", SHIPPED)
def test_the_default_profile_is_on_top_of_each_and_takes_nothing_from_it(name):
    """It wins over every other, so no key may stand in both with another value."""
    from snakemake.profiles import ProfileConfigFileParser

    result = shipped(name)
    assert result["rerun_incomplete"] is True
    assert result["rerun_triggers"] == ["code", "mtime", "params", "software-env"]
    parsed = []
    for one in ("default", name):
        with (ROOT / "profiles" / one / "config.yaml").open() as stream:
            parsed.append(ProfileConfigFileParser().parse(stream))
    default, other = parsed
    for key in default.keys() & other.keys():
        assert str(default[key]).lower() == str(other[key]).lower(), key


def test_local_workers_take_no_core():
    result = shipped("local")
    zero = 'Resource("_cores", 0)'
    assert {"load", "phase", "verify", "node"} <= result["set_threads"].keys()
    assert set(result["set_threads"].values()) == {zero}
    assert result["cores"] == os.cpu_count()
    assert result["executor"] is None


@pytest.mark.parametrize("name", ["pbs", "slurm"])
def test_a_scheduler_has_its_executor_and_no_job_is_longer_than_queues_allow(name):
    assert shipped(name)["executor"] == name
    assert shipped(name)["set_threads"] == {}
    for rule in ("node", "form"):
        assert node_resources(ROOT / "profiles" / name, rule)["runtime"] <= 12 * 60


def test_aws_is_slurm_with_queues_of_instances():
    slurm, aws = shipped("slurm"), shipped("aws")
    assert aws["executor"] == "slurm"
    message = [key for key in slurm if key.startswith("slurm_") or key in ("jobs", "latency_wait")]
    assert len(message) > 5
    for key in message:
        if "_MISSING_TYPE" not in str(slurm[key]):
            assert aws[key] == slurm[key], key
    assert aws["set_resources"].keys() == {"node", "load", "phase", "form", "close"}


def test_what_the_pbs_profile_leaves_out_can_be_written_as_it_says(tmp_path):
    """Each value in a comment, taken as it stands there."""
    text = (ROOT / "profiles" / "pbs" / "config.yaml").read_text()
    values = re.compile(r"^( *)# ((?:[a-z_-]+): (?:\"'.*'\"|\".*\"|\d+|[\w.]+))$", re.M)
    (tmp_path / "config.yaml").write_text(values.sub(r"\1\2", text))
    result = settings(str(tmp_path))
    assert result["pbs_queue"] == "workq"
    assert result["pbs_extra"] == "-W group_list=my_group"
    resources = node_resources(tmp_path)
    assert resources["pbs_select"] == "host_type=nvme:scratch_local=10gb"
    classes = parse_classes(resources["node_classes"])
    partitions = {name: one.partition for name, one in classes.items()}
    assert partitions == {"data": "workq", "large": "bigmem"}
    assert parse_selects(resources["node_selects"]).keys() == classes.keys()
