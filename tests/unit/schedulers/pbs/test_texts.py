"""The pure parts of the commands of profiles/pbs: command lines, names, and what qstat says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pbs.answers import Answer, answers, block, first_as_json, states_of, table

from storewise.schedulers.pbs.options import submit_options
from storewise.schedulers.pbs.qstat import JobState, matched, no_history, parse, query, unknown_of
from storewise.schedulers.pbs.request import (
    Host,
    Job,
    RequestError,
    clean_name,
    first_words,
    hosts_of,
    job_of,
    megabytes,
    passing,
    qsub_words,
    refusal,
    refused,
    too_large,
    walltime,
)

LOAD = Job("load-sqlite", 4, 2000, 500, 90, "work", False)
NODE = replace(LOAD, name="node-x", node_class="data", exclusive=True)


# ------------------------------------------------------------------ command lines


def words(job: Job, *options: str) -> list[str]:
    result, _ = submit_options([*options, "script"])
    return qsub_words(job, result, "name", Path("/log/name.log"), Path("/tmp/script"))


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
    result = [megabytes(t) for t in ("1048576kb", "2gb", "2GB", "1tb", "3145728b", "7", "x")]
    assert result == [1024, 2048, 2048, 2**20, 3, 0, None]


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
    output = too_large(replace(LOAD, threads=16, memory=2000), hosts)
    assert output is not None
    assert "16 CPUs and 2000 MB" in output and "64 CPUs (a) and 9000 MB (b)" in output
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


def listings() -> list[Answer]:
    """Every recorded answer of ``qstat -f`` about jobs."""
    result = [a for name in ("states", "history", "hosts") for a in answers(name).values()]
    return [a for a in result if re.match(r"qstat (-x )?-f (-w )?\d", a.command)]


def test_every_recorded_answer_is_read() -> None:
    """All jobs of it, with the state and exit status that a reader of lines finds."""
    read = 0
    for answer in listings():
        if "newline" in answer.title:
            continue
        expected = {
            job_id: JobState(
                job["job_state"], int(job["Exit_status"]) if "Exit_status" in job else None
            )
            for job_id, job in states_of(answer.stdout).items()
        }
        assert parse(answer.stdout) == expected, answer.title
        read += len(expected)
    assert read > 60


def test_recorded_jobs_and_their_verdicts() -> None:
    states, history, hosts = answers("states"), answers("history"), answers("hosts")
    result = parse(states["history on: text, all states"].stdout)
    assert {job_id: state.verdict for job_id, state in result.items()} == {
        "0.login": "running",
        "1.login": "running",
        "2.login": "success",
        "3.login": "failed",
        "4.login": "failed",  # deleted while it ran
        "5.login": "running",  # held
        "6.login": "running",  # too large for any node: waits for ever
        "7.login": "running",
        "9.login": "failed",  # deleted before it started
    }
    assert parse(states["wall time passed"].stdout)["7.login"] == JobState("F", -29)
    # A host is lost: its jobs run on until `node_fail_requeue`, then they have failed; one that may
    # run again waits with the exit status of its first run.
    title = "history on: mom of n1 killed {} s ago, node_fail_requeue=20: a job with -r n, one with"
    title += " -r y, one that has ended meanwhile"
    soon, later = (parse(hosts[title.format(seconds)].stdout) for seconds in (1, 21))
    assert {state.verdict for state in soon.values()} == {"running"}
    assert later["17.login"] == JobState("F", -20)
    assert later["18.login"] == JobState("Q", -20)
    assert [state.verdict for state in later.values()] == ["failed", "running", "failed"]
    # Lines of a user's own in a variable are no attributes.
    odd = history["history on: a variable with a newline"].stdout
    assert "    Exit_status = 0,\n" in odd
    assert parse(odd) == {"8.login": JobState("R")}


def test_wrapped_lines_are_the_wide_ones() -> None:
    history = answers("history")
    narrow = history["history on: the same without -x"].stdout
    wide = history["history on: the same, wide"].stdout
    assert narrow != wide
    assert narrow.replace("\n\t", "") == wide
    assert parse(narrow) == parse(wide)


def test_a_server_without_history_is_told_by_its_words() -> None:
    for name in ("states", "history", "hosts"):
        for answer in answers(name).values():
            refused = "PBS is not configured to maintain job history" in answer.stderr
            assert no_history(answer.stderr) == refused
            if refused:
                assert answer.exit_status == 0
    many = answers("states")["history off: -x is refused for all"]
    # Running jobs, too: they are neither known nor unknown then.
    assert (parse(many.stdout), unknown_of(many.stderr, ["0.login"])) == ({}, set())
    assert query("openpbs", ["1.a", "2.a"]) == ["qstat", "-x", "-f", "1.a", "2.a"]
    assert query("openpbs", ["1.a", "2.a"], history=False) == ["qstat", "-f", "1.a", "2.a"]
    assert query("torque", ["1.a"]) == ["qstat", "-f", "1.a"]


@pytest.mark.parametrize("end", range(0, 1500, 50))
def test_no_part_of_an_answer_is_taken_for_a_whole(end: int) -> None:
    whole = answers("history")["history on: one finished job"].stdout
    assert len(whole) > 1500
    if end:
        with pytest.raises(ValueError, match="qstat's answer"):
            parse(whole[:end])
    with pytest.raises(ValueError, match="qstat's answer"):
        parse("no answer\n\n")


def test_the_stand_in_prints_what_the_real_one_printed() -> None:
    history = answers("history")
    recorded = history["history on: jobs that run, ended, failed, were killed by a signal, wait"]
    jobs = {
        job_id: {
            "id": job_id,
            "name": job["Job_Name"],
            "state": job["job_state"],
            "queue": job["queue"],
            "exit": int(job["Exit_status"]) if "Exit_status" in job else None,
        }
        for job_id, job in states_of(recorded.stdout).items()
    }
    assert table([jobs["1.login"], jobs["7.login"]]) == (
        history["history on: short table with finished jobs"].stdout
    )
    for job_id in ("1.login", "4.login", "7.login"):
        assert block(jobs[job_id]) in recorded.stdout
    unknown = history["history on: an unknown job"]
    assert unknown.line(id="99999.login") + "\n" == unknown.stderr
    assert first_as_json([jobs["1.login"], jobs["3.login"]]).count('"job_state"') == 1


# ------------------------------------------------------------------ refusals


def test_a_recorded_refusal_becomes_a_reason_with_advice() -> None:
    """From qsub's words to what Snakemake hands on to the run."""
    command = ["qsub", "-l", "walltime=12:00:00"]
    node = replace(NODE, minutes=720)
    text = {}
    for answer in (*answers("refusals").values(), *answers("states").values()):
        if "qsub" in answer.command and answer.stderr:
            words = first_words(answer.stderr)
            message = refused(node, words, command, 60)
            handed_on = f"Error submitting jobscript (exit code 1):\nstorewise: {message}\n"
            assert refusal(handed_on) == message
            assert words in message and "usage:" not in message
            text[answer.title] = message
    for title in ("a wall time beyond the queue", "more memory than the queue allows"):
        assert "asks for a wall time of 12:00:00, 4 CPUs and 2000 MB" in text[title]
        assert "qstat -Qf" in text[title] and "session_walltime" in text[title]
    for title in ("more jobs than the server takes of a user", "more jobs than the queue takes"):
        assert "fewer jobs at once" in text[title]
    assert "queue, account" in text["a queue that others may use"]
    assert refusal("Error in something else") is None
    assert [title for title in text if passing(text[title].split(". Asked")[0])] == [
        "server down: qsub"
    ]


def test_text_of_torque_and_old_pbs() -> None:
    text = (
        "Job Id: 12.host.domain\n    Job_Name = a\n    job_state = C\n"
        "    Variable_List = X=1,\n\tjob_state = R,Y=2\n    exit_status = 271\n\n"
        "Job Id: 13.host.domain\n    job_state = Q\n\n"
        "Job Id: 14.host\n    job_state = F\n    Exit_status = -29\n\n"
    )
    result = parse(text)
    assert result == {
        "12.host.domain": JobState("C", 271),
        "13.host.domain": JobState("Q"),
        "14.host": JobState("F", -29),
    }
    assert matched(result, ["12.host", "15.host"]) == {"12.host": JobState("C", 271)}


def test_unknown_jobs_are_those_that_the_server_names() -> None:
    output = "qstat: Unknown Job Id 12.pbs\nqstat: cannot connect to server 13\n"
    assert unknown_of(output, ["12.pbs", "13.pbs", "1.pbs"]) == {"12.pbs"}
    assert unknown_of("qstat: Unknown Job Id Error 13.pbs.domain", ["13.pbs"]) == {"13.pbs"}
