"""Which jobs a scheduler still has, and cancelling those of a run; its commands are handed in."""

import subprocess

from support.fake_time import FakeTime
from support.pbs.answers import answers

from storewise.schedulers.jobs import ClusterJob, RunJobs, cancel_jobs
from storewise.schedulers.queue import cancel, present


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


def test_cancelling_says_what_a_scheduler_has_not_accepted(commands):
    assert cancel("pbs", ["1.login", "2.login"]) == []
    assert cancel("slurm", ["8", "9"], force=True) == cancel("slurm-run", ["run-1"]) == []
    assert [" ".join(words) for words in commands.calls] == [
        *("qdel 1.login", "qdel 2.login"),  # one by one
        *("scancel --signal=KILL 8 9", "scancel 8 9", "scancel --name=run-1"),
    ]
    for words in ("qdel: Unknown Job Id 1.login", "qdel: Job has finished 1.login"):
        commands.answer = lambda _, words=words: ("", words, 153)
        assert cancel("pbs", ["1.login"]) == []
    commands.answer = lambda words: ("", "qdel: cannot connect to server", 255)
    refused = ["qdel 1.login: qdel: cannot connect to server"]
    assert cancel_jobs({"pbs": ("1.login",), "slurm": ()}) == refused

    def silent(words):
        raise subprocess.TimeoutExpired(words, 30)

    commands.answer = silent
    (sentence,) = cancel("pbs", ["1.login", "2.login"])
    assert "timed out after 30 seconds" in sentence
    assert present("pbs", ["1.login"]) is None


def test_what_is_left_of_an_aborted_trial_is_cancelled_by_force_after_a_minute(commands):
    own_time = FakeTime()
    jobs = RunJobs(clock=own_time.clock)
    for number, job in enumerate(
        [
            *(ClusterJob("1.login", "pbs", "dead"), ClusterJob("2.login", "pbs", "dead")),
            *(ClusterJob("3.login", "pbs", "alive"), ClusterJob("8", "slurm", "dead")),
            *(ClusterJob("name", "slurm-run"), ClusterJob("4.login", "pbs", "dead")),
        ]
    ):
        jobs.submitted(str(number), job)
    jobs.ended("5")
    jobs.ended("5")
    assert jobs.ids() == {
        "pbs": ("1.login", "2.login", "3.login"),
        "slurm": ("8",),
        "slurm-run": ("name",),
    }

    def answer(words):
        table = {"qstat": qstat({"1.login": "R", "2.login": "F"}), "squeue": "8\n"}
        return table.get(words[0], ""), "", 0

    commands.answer = answer
    for seconds in (0, 59.9):
        own_time.spend(seconds)
        assert jobs.cancel_overdue(["dead"]) == commands.calls == []
    own_time.spend(0.1)
    late = "is still there 60 s after its trial dead ended: it is cancelled"
    assert jobs.cancel_overdue(["dead"]) == [f"job 1.login {late}", f"job 8 {late}"]
    deletes = [" ".join(words) for words in commands.calls if words[0] in ("qdel", "scancel")]
    assert deletes == ["qdel -W force 1.login", "scancel --signal=KILL 8", "scancel 8"]
    commands.calls.clear()
    assert jobs.cancel_overdue(["dead"]) == [], "told once"
    assert ["qdel", "-W", "force", "1.login"] in commands.calls, "as long as it is there"
    assert jobs.cancel_overdue([]) == []
    assert jobs.cancel_overdue(["dead"]) == [], "a trial that begins anew has its minute"
