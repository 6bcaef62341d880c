"""Which jobs a scheduler still has, and which of a run are cancelled or deleted by force; its
commands are handed in."""

import pytest
from support.fake_time import FakeTime
from support.pbs.answers import answers

from storewise.schedulers import job_registry
from storewise.schedulers.overdue import Overdue
from storewise.schedulers.queue import host_of, present

RUN = "run-1"


def qstat(rows):
    head = answers("history")["history on: short table with finished jobs"].stdout
    table = [f"{i:<17.17} name user 00:00:00 {s} workq\n" for i, s in rows.items()]
    return "".join([*head.splitlines(keepends=True)[:2], *table])


def test_what_pbs_still_has(commands):
    rows = {"1.login": "R", "2.login": "Q", "3.login": "F", "4.login": "E"}
    commands.answer = lambda words: (qstat(rows), "qstat: Unknown Job Id 5.login\n", 153)
    assert present("pbs", [*rows, "5.login"]) == {"1.login", "2.login", "4.login"}
    commands.answer = lambda words: ("", "qstat: cannot connect to server\n", 255)
    assert present("pbs", [*rows]) is None
    # Tasks of an array are asked for one by one.
    tasks = {"19[3].login": "R", "19[4].login": "X"}
    commands.answer = lambda words: (qstat(tasks), "", 0)
    assert present("pbs", [*tasks]) == {"19[3].login"}
    assert commands.calls[-1] == ["qstat", "-t", *tasks]


def test_what_slurm_still_has(commands):
    commands.answer = lambda words: ("11\n12_3\n", "", 0)
    assert present("slurm", ["11", "12", "12_3", "13"]) == {"11", "12", "12_3"}
    commands.answer = lambda words: ("", "slurm_load_jobs error: Invalid job id specified", 1)
    assert present("slurm", ["11"]) == set()
    commands.answer = lambda words: ("", "Unable to contact slurm controller", 1)
    assert present("slurm", ["11"]) is None


def test_the_host_of_a_job(commands):
    commands.answer = lambda words: ("Job Id: 1.login\n    exec_host = n3.x.y/0*4+n4/0\n", "", 0)
    assert host_of("pbs", "1.login") == "n3"
    commands.answer = lambda words: ("sw2\n", "", 0)
    assert host_of("slurm", "7") == "sw2"
    commands.answer = lambda words: ("", "down", 1)
    assert host_of("slurm", "7") == host_of("pbs", "1.login") == ""


def test_a_registry_has_what_was_submitted_and_not_what_has_ended(tmp_path, caplog):
    job = job_registry.ClusterJob("19[3].login", "pbs", "t", "data0.t")
    job_registry.register(tmp_path, RUN, job)
    job_registry.register(tmp_path, RUN, job_registry.ClusterJob("20.login", "pbs"))
    job_registry.register(tmp_path, "run-2", job_registry.ClusterJob("21.login", "pbs"))
    assert job_registry.runs(tmp_path) == [RUN, "run-2"]
    job_registry.forget(tmp_path, RUN, ["20.login"])
    assert job_registry.registered(tmp_path, RUN) == [job]
    # What a crash has left of a file is named, and ends nothing.
    for number, content in enumerate(("", "[]", '{"id": 1, "x": 2}')):
        (job_registry.run_directory(tmp_path, RUN) / f"{number}.login").write_text(content)
    assert job_registry.registered(tmp_path, RUN) == [job]
    assert all(f"so job {number}.login is not cancelled" in caplog.text for number in range(3))
    job_registry.remove_registry(tmp_path, RUN)
    job_registry.remove_registry(tmp_path, RUN)
    assert job_registry.runs(tmp_path) == ["run-2"]
    for bad in ("", "a/b", ".x"):
        with pytest.raises(ValueError, match="is not a job id"):
            job_registry.register(tmp_path, RUN, job_registry.ClusterJob(bad, "pbs"))


def test_jobs_are_cancelled_one_by_one_until_they_are_gone(tmp_path, commands, monkeypatch):
    own_time = FakeTime()
    monkeypatch.setattr(job_registry.time, "monotonic", own_time.clock)
    monkeypatch.setattr(job_registry.time, "sleep", own_time.sleep)
    busy, alive = [True], {"1.login", "2.login"}

    def answer(words):
        if words[0] == "qstat":
            return qstat(dict.fromkeys(alive, "R")), "", 0
        if busy:
            busy.pop()
            return "", "qdel: cannot connect to server", 255
        if "2.login" not in words or "force" in words:
            alive.discard(words[-1])
        return "", "", 0

    commands.answer = answer
    for job_id in sorted(alive):
        job_registry.register(tmp_path, RUN, job_registry.ClusterJob(job_id, "pbs"))
    assert job_registry.cancel_until_gone(tmp_path, RUN) == []
    deletes = [words[1:] for words in commands.calls if words[0] == "qdel"]
    # The first was refused; the second does not end, and is forced after 45 s.
    forced = ["-W", "force", "2.login"]
    assert deletes == [["1.login"], ["2.login"], ["1.login"], forced]
    assert 45 < own_time.now - 1000 < 60
    assert not job_registry.run_directory(tmp_path, RUN).exists()


def test_what_is_left_of_an_aborted_trial_is_deleted_by_force_after_a_minute(tmp_path, commands):
    own_time = FakeTime()
    overdue = Overdue(tmp_path, RUN, clock=own_time.clock)
    for job in (
        ("1.login", "pbs", "dead", "data0.dead"),
        ("2.login", "pbs", "dead", "load.0.dead"),
        ("3.login", "pbs", "alive"),
        ("8", "slurm", "dead"),
        ("name", "slurm-run"),
    ):
        job_registry.register(tmp_path, RUN, job_registry.ClusterJob(*job))

    def answer(words):
        if words[:2] == ["qstat", "-f"]:
            return "Job Id: 1.login\n    exec_host = n3/0\n", "", 0
        table = {"qstat": qstat({"1.login": "R", "2.login": "F"}), "squeue": "8\n"}
        return table.get(words[0], ""), "", 0

    commands.answer = answer
    for seconds in (0, 59.9):
        own_time.spend(seconds)
        assert overdue.end(["dead"]) == commands.calls == []
    own_time.spend(0.1)
    late = "60 s after its trial dead ended: it is deleted by force"
    assert overdue.end(["dead"]) == [
        f"PBS still shows job 1.login (data0.dead) on host n3 {late}",
        f"Slurm still shows job 8 on host 8 {late}",
    ]
    deletes = [" ".join(words) for words in commands.calls if words[0] in ("qdel", "scancel")]
    assert deletes == ["qdel -W force 1.login", "scancel --signal=KILL 8", "scancel 8"]
    assert overdue.end(["dead"]) == [], "once"
    assert overdue.end([]) == []
    assert overdue.end(["dead"]) == [], "a trial of the same name that begins anew has its minute"
