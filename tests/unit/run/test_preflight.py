"""What is refused, or told, before anything of a plan starts; how the workflow says it:
tests/e2e/studies/test_refusals.py."""

from collections import namedtuple
from pathlib import Path

import pytest

from storewise.errors import ConfigError, StorewiseError
from storewise.run import preflight
from storewise.study.host_classes import NodeClass
from storewise.study.load import load_study

Usage = namedtuple("Usage", "total used free")
SERVERS = "workload: ycsb\nengines: [postgres]\nphases: [load: {recordcount: 9}]\n"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(text):
    Path("s.yaml").write_text(SERVERS + text)
    return load_study("s.yaml")


def test_workers_that_share_jobs_are_in_no_group():
    preflight.check_groups(study("factors: {workers: 4}\n"), {"load": "trial"})
    shared = study("factors: {workers: 4}\nworkers_per_job: 2\n")
    preflight.check_groups(shared, {"node": "nodes"})
    with pytest.raises(ConfigError, match=r"workers_per_job: 2.*use one of them"):
        preflight.check_groups(shared, {"load": "trial"})


def test_a_trial_is_measured_whole():
    files = [f"results/s/trials/t/read.{k}.parquet" for k in range(6)]
    preflight.check_whole("t", files, [*files, "live/t/session.json"])
    with pytest.raises(ConfigError, match=r"part of trial t only.*: \S+read\.1\S+, \S+, \S+ and 2"):
        preflight.check_whole("t", files, files[:1])


@pytest.mark.parametrize(
    ("text", "cores", "threads", "says"),
    [
        ("factors: {workers: 9, nodes: 3}\n", 7, 0, r"3 nodes and 9 workers .*only 11 .*--cores 8"),
        ("factors: {workers: 9, nodes: 3}\n", 8, 0, None),
        ("factors: {workers: 2, nodes: 1}\n", 5, 2, r"only 2 .*--cores 6 or more, or --profile"),
        ("factors: {workers: 2, nodes: 1}\n", 6, 2, None),
        # Each would hold what the other one waits for.
        ("factors: {workers: [1, 3], nodes: 1}\nlive_sessions: 2\n", 1, 0, r"\(6 jobs with .* 1 m"),
        ("factors: {workers: [1, 3], nodes: 1}\nlive_sessions: 2\n", 2, 0, None),
        ("factors: {workers: 9, nodes: 1}\nworkers_per_job: 4\n", 0, 0, None),
        (
            "factors: {workers: 9, nodes: 2}\nworkers_per_job: 4\n",
            0,
            0,
            r"9 workers in 3 jobs that",
        ),
    ],
)
def test_jobs_that_run_together_must_fit(text, cores, threads, says):
    one = study(text)
    each = {trial.id: threads for trial in one.trials()}
    if says is None:
        preflight.check_cores(one.trials(), one, cores, each)
        return
    with pytest.raises(ConfigError, match=says):
        preflight.check_cores(one.trials(), one, cores, each)


def test_jobs_that_run_together_must_fit_into_the_queue():
    one = study("factors: {workers: 4, nodes: 2}\n")
    preflight.check_jobs(one.trials(), one, 6)
    with pytest.raises(
        ConfigError, match=r"only 5 jobs can run at once here.*use --jobs 6 or more"
    ):
        preflight.check_jobs(one.trials(), one, 5)


def test_a_scheduler_that_is_not_used_is_told(monkeypatch):
    trials = study("factors: {nodes: 2}\n").trials()
    monkeypatch.setattr(preflight.shutil, "which", lambda program: None)
    assert preflight.unused_scheduler(trials) is None
    monkeypatch.setattr(preflight.shutil, "which", lambda program: program == "qsub")
    assert "although it has qsub; use --profile profiles/pbs" in preflight.unused_scheduler(trials)
    assert preflight.unused_scheduler([]) is None, "no servers"


def test_classes_of_hosts_that_the_profile_does_not_know():
    plain, by_class = study("factors: {nodes: 1}\n"), study("factors: {node_class: [data, big]}\n")
    preflight.check_host_classes(plain.trials(), plain, {})
    classes = {name: NodeClass("queue") for name in ("data", "big")}
    preflight.check_host_classes(by_class.trials(), by_class, classes)
    del classes["big"]
    for known in ({}, classes):
        with pytest.raises(
            ConfigError, match=r"node class '\w+' is not .*needs a profile that maps"
        ):
            preflight.check_host_classes(by_class.trials(), by_class, known)


def test_what_would_cost_too_much():
    prices = (
        "prices: {node_hour: 1, client_hour: 1, gb_month: 0, currency: EUR, note: ours, "
        "date: 2026-03-31}\n"
    )
    results = Path("results/s")
    assert preflight.check_cost(study(""), [], {}, results) is None
    cheap, dear = study(f"{prices}max_cost: 99\n"), study(f"{prices}max_cost: 0.000001\n")
    said = preflight.check_cost(cheap, cheap.trials(), {}, results)
    assert said.startswith("measuring 1 trial costs about ") and said.endswith(" allows 99.00")
    with pytest.raises(StorewiseError, match="max_cost"):
        preflight.check_cost(dear, dear.trials(), {}, results)


def test_places_that_cannot_be_used(place, monkeypatch):
    results = place / "results" / "s"
    preflight.check_writable(results)
    assert list(results.iterdir()) == []
    preflight.check_private_way(results)
    results.chmod(0o777)
    with pytest.raises(ConfigError, match=r"every user may write to .*chmod o-w"):
        preflight.check_private_way(results)
    (place / "file").touch()
    with pytest.raises(ConfigError, match=r"results cannot be written to .*file/s: "):
        preflight.check_writable(place / "file" / "s")
    one = study("")
    preflight.check_space(one, results)
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(1, 1, 3 << 20))
    with pytest.raises(ConfigError, match=r"there is not enough space: .* has 3\.00 MiB free"):
        preflight.check_space(one, results)


def test_a_bucket_that_cannot_be_published_to(monkeypatch):
    checked = []
    preflight.check_publishable(study(""))
    one = study("publish: s3://bucket/prefix\n")
    monkeypatch.setattr(preflight, "check_place", lambda place, tags: checked.append(str(place)))
    preflight.check_publishable(one)
    assert checked == ["s3://bucket/prefix/"]

    def refuse(place, tags):
        raise StorewiseError("no such bucket")

    monkeypatch.setattr(preflight, "check_place", refuse)
    with pytest.raises(
        ConfigError, match="could not be published at the end of the run: no such bucket"
    ):
        preflight.check_publishable(one)
