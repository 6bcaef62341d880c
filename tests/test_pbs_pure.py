"""The pure parts of the commands of profiles/pbs: command lines, names, and what qstat says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.pbs.options import submit_options
from storewise.pbs.request import (
    Host,
    Job,
    RequestError,
    clean_name,
    hosts_of,
    job_of,
    megabytes,
    qsub_words,
    too_large,
    walltime,
)
from storewise.pbs.states import JobState, matched, parse, unknown_of

LOAD = Job("load-sqlite", 4, 2000, 500, 90, "work", False)
NODE = replace(LOAD, name="node-x", node_class="data", exclusive=True)


# ------------------------------------------------------------------ command lines


def words(job: Job, *options: str) -> list[str]:
    found, _ = submit_options([*options, "script"])
    return qsub_words(job, found, "name", Path("/log/name.log"), Path("/tmp/script"))


def test_openpbs_gets_a_chunk_a_place_and_a_wall_time() -> None:
    assert words(LOAD) == [
        *("qsub", "-N", "name", "-r", "n", "-j", "oe", "-o", "/log/name.log"),
        *("-l", "select=1:ncpus=4:mem=2000mb", "-l", "walltime=01:30:00", "-l", "place=free"),
        "/tmp/script",
    ]


def test_torque_gets_nodes_and_ppn() -> None:
    assert words(LOAD, "--dialect", "torque") == [
        *("qsub", "-N", "name", "-r", "n", "-j", "oe", "-o", "/log/name.log"),
        *("-l", "nodes=1:ppn=4", "-l", "mem=2000mb", "-l", "walltime=01:30:00"),
        "/tmp/script",
    ]
    assert "-n" in words(NODE, "--dialect", "torque")


def test_values_of_the_profile_go_by_class_of_node() -> None:
    options = (
        *("--queue", "data:dbq", "--queue", "work:batch", "--account", "proj"),
        *("--select", "data:host_type=big:ib=true", "--disk", "scratch", "--extra", "-W 'a=b c'"),
    )
    node, load = words(NODE, *options), words(LOAD, *options)
    assert "select=1:ncpus=4:mem=2000mb:scratch=500mb:host_type=big:ib=true" in node
    assert "place=excl" in node
    assert node[node.index("-q") + 1] == "dbq"
    assert load[load.index("-q") + 1] == "batch"
    assert "select=1:ncpus=4:mem=2000mb:scratch=500mb" in load
    assert load[-5:] == ["-A", "proj", "-W", "a=b c", "/tmp/script"]
    for empty in (("--queue", ""), ("--queue", "data:", "--queue", "work:"), ()):
        assert "-q" not in words(LOAD, *empty, "--account", "")
    assert words(LOAD, "--queue", "all")[-2] == "all"


def test_walltime_and_memory() -> None:
    assert [walltime(m) for m in (1, 60, 1441)] == ["00:01:00", "01:00:00", "24:01:00"]
    found = [megabytes(t) for t in ("1048576kb", "2gb", "2GB", "1tb", "3145728b", "7", "x")]
    assert found == [1024, 2048, 2048, 2**20, 3, 0, None]


@given(st.text(), st.sampled_from(["openpbs", "torque"]))
def test_any_name_becomes_one_that_qsub_takes(name: str, dialect: str) -> None:
    clean = clean_name(name, "a1b2c3", dialect)
    assert clean.isascii()
    assert clean[0].isalpha()
    assert len(clean) <= (15 if dialect == "torque" else 60)
    assert clean.endswith("-a1b2c3")
    assert not set(clean) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def test_properties_of_a_jobscript() -> None:
    job = job_of(
        {
            "rule": "node",
            "wildcards": {"trial": "t-1", "node": "shard.0"},
            "threads": 0,
            "resources": {
                "mem_mb": 4000,
                "runtime": 30,
                "node_class": "data",
                "exclusive": 1,
                "scratch": "",
            },
        }
    )
    assert job == Job("node-t-1-shard.0", 1, 4000, None, 30, "data", True)
    group = job_of({"type": "group", "groupid": "phases", "threads": 3, "resources": {}})
    assert group == Job("phases", 3, None, None, None, "work", False)
    with pytest.raises(RequestError, match="rule a, resource mem_mb: '<TBD>' is not a number"):
        job_of({"rule": "a", "resources": {"mem_mb": "<TBD>"}})
    with pytest.raises(RequestError, match=r"'dta' .*did you mean 'data'.*data or work"):
        job_of({"rule": "a", "resources": {"node_class": "dta"}})


def test_a_job_that_fits_no_node_is_told() -> None:
    hosts = [Host("a", 64, 1000), Host("b", 8, 9000)]
    assert too_large(replace(LOAD, threads=8, memory=9000), hosts) is None
    said = too_large(replace(LOAD, threads=16, memory=2000), hosts)
    assert said is not None
    assert "16 CPUs and 2000 MB" in said and "64 CPUs (a) and 9000 MB (b)" in said
    # What the server does not say is no reason to refuse.
    assert too_large(replace(LOAD, threads=99), [*hosts, Host("c", None, None)]) is None
    assert too_large(replace(LOAD, threads=99), []) is None
    text = '{"nodes": {"a": {"resources_available": {"ncpus": 4, "mem": "4194304kb"}}, "b": {}}}'
    assert hosts_of(text) == [Host("a", 4, 4096), Host("b", None, None)]


# ------------------------------------------------------------------ what qstat says


def test_states_and_their_verdicts() -> None:
    verdicts = {
        ("Q", None): "running",
        ("H", None): "running",
        ("R", None): "running",
        ("E", 0): "running",
        ("F", 0): "success",
        ("C", 0): "success",
        ("F", 1): "failed",
        ("F", 271): "failed",
        ("F", -29): "failed",
        ("F", None): "failed",
    }
    for (letter, code), word in verdicts.items():
        assert JobState(letter, code).verdict == word


def qstat_json(name: str = "load", **more: Any) -> str:
    job = {"Job_Name": name, "job_state": "F", "Exit_status": 0, "Variable_List": {"A": name}}
    return json.dumps({"timestamp": 1, "Jobs": {"7.pbs": {**job, **more}}}, indent=4)


@given(st.text())
def test_json_with_odd_names(name: str) -> None:
    assert parse(qstat_json(name)) == {"7.pbs": JobState("F", 0)}


def test_json_that_is_none() -> None:
    # As printed by versions that escape nothing: raw control characters, quotes, backslashes.
    broken = qstat_json("NAME").replace("NAME", 'a"b\\x\x01\tü\ufffd')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken, strict=False)
    assert parse(broken) == {"7.pbs": JobState("F", 0)}
    assert parse('{"timestamp": 1}') == {}
    for cut in (broken[:-20], '{\n "timestamp":17', "no answer\n", "Job Id: 1.x\n    Job_Na"):
        with pytest.raises(ValueError):
            parse(cut)


def test_text_of_torque_and_old_pbs() -> None:
    text = (
        "Job Id: 12.host.domain\n    Job_Name = a\n    job_state = C\n"
        "    Variable_List = X=1,\n\tjob_state = R,Y=2\n    exit_status = 271\n\n"
        "Job Id: 13.host.domain\n    job_state = Q\n\n"
        "Job Id: 14.host\n    job_state = F\n    Exit_status = -29\n"
    )
    found = parse(text)
    assert found == {
        "12.host.domain": JobState("C", 271),
        "13.host.domain": JobState("Q"),
        "14.host": JobState("F", -29),
    }
    assert matched(found, ["12.host", "15.host"]) == {"12.host": JobState("C", 271)}


def test_unknown_jobs_are_those_that_the_server_names() -> None:
    said = "qstat: Unknown Job Id 12.pbs\nqstat: cannot connect to server 13\n"
    assert unknown_of(said, ["12.pbs", "13.pbs", "1.pbs"]) == {"12.pbs"}
    assert unknown_of("qstat: Unknown Job Id Error 13.pbs.domain", ["13.pbs"]) == {"13.pbs"}
