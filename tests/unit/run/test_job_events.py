"""What follows when a job of a run is submitted, ends or fails."""

import logging
import re
from pathlib import Path

import pytest
from snakemake_executor_plugin_pbs import events as pbs_events
from support.session import opened

from storewise.run import job_events
from storewise.run.job_events import FailedJob, RunEvents, ScriptExits
from storewise.schedulers.jobs import ClusterJob, RunJobs
from storewise.session.coordination.failure import failures
from storewise.session.coordination.liveness import ABORT, Abort, abort, membership, read_abort
from storewise.session.coordination.run import Run

LOG = "logs/t/read.0.log"
PBS_LOG = "/home/u/.snakemake/pbs_logs/r/read.0.log"
KILLED = "Command 'python read.py' died with <Signals.SIGKILL: 9>."
NODE_FAIL = "SLURM-job '12' failed due to a node failure; it is not retried"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose trial `t` is being measured."""
    monkeypatch.chdir(tmp_path)
    results = Path("results/s")
    results.mkdir(parents=True)
    run = Run(results)
    opened(results, run.id, trial="t")
    return run


@pytest.fixture
def jobs():
    return RunJobs()


@pytest.fixture
def stopped():
    return []


@pytest.fixture
def events(run, jobs, stopped):
    return RunEvents(run, jobs, lambda: stopped.append(True))


def report(event=pbs_events.FAILED, reason="", jobid="7", **more):
    return pbs_events.Event(event, "read.0.t", jobid, "12.login", PBS_LOG, reason, **more).data


def job(message="", trial="t", log=LOG, rule="phase"):
    """`message` is a text of the executor for Slurm, or a report of the one for PBS."""
    text, of_pbs = (message, {}) if isinstance(message, str) else ("", message)
    outputs = [f"results/s/trials/{trial}/read.0.parquet"] if trial else ["results/s/x.parquet"]
    return FailedJob(
        rule, "7", outputs, [f"{log} (check log file(s) for error details)"], text, of_pbs
    )


@pytest.mark.parametrize(
    ("error", "message", "reason"),
    [
        (KILLED, "", r"read\.0 on host \S+ was ended by SIGKILL"),
        (
            "Command 'x' returned non-zero exit status 3.",
            "",
            r"read\.0 ended with status 3 and without a message of its own$",
        ),
        ("", "", r"read\.0 failed without a message of its own: was it killed with all of its "),
        ("", NODE_FAIL, r"phase lost its host: Slurm says that it is gone \(NODE_FAIL\), as an"),
        (
            "",
            "SLURM-job '12' failed, SLURM status is: 'TIMEOUT'.",
            r"read\.0 ended early: Slurm says TIMEOUT of job 12, it had not ended in its wall time",
        ),
        (
            "",
            "SLURM sbatch failed. The error message was 'invalid partition'.\n",
            r"phase was refused: invalid partition$",
        ),
        (
            "",
            report(reason="ended with exit status 1", cause=pbs_events.EXIT),
            rf"read\.0 ended with exit status 1; PBS's log of it: {PBS_LOG}$",
        ),
        (
            "",
            report(pbs_events.REFUSED, "qsub: Unknown queue"),
            r"phase was refused: PBS did not accept read\.0\.t: ",
        ),
    ],
)
def test_a_failed_job_ends_its_trial_with_what_is_known(
    run, events, stopped, capsys, error, message, reason
):
    events.job_started("7", "t")
    events.error("an error of another kind")
    events.error(error)
    events.job_failed(job(message))
    (failure,) = failures(run.results, "t")
    assert re.match(reason, failure.reason), failure.reason
    assert read_abort(run.results / "live" / "t" / ABORT).failure
    assert capsys.readouterr().err == f"storewise: trial t ended: {failure.reason}\n"
    events.job_failed(job(message))
    assert len(failures(run.results, "t")) == 1 and stopped == [], "once a session"


def test_the_first_reason_stays_and_a_lost_host_is_added(run, events, capsys):
    live = run.results / "live" / "t"
    abort(live, Abort("read.1: no answer of data0", failure=True))
    with membership(live, "read.0"):
        events.job_failed(job(NODE_FAIL))
    (failure,) = failures(run.results, "t")
    assert failure.reason.startswith("read.1: no answer of data0; phase lost its host ")
    assert "storewise: phase lost its host" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("why", "ends"),
    [
        (Abort("load.0: no space left on device", failure=True), True),
        (Abort("it was ended by `storewise sessions --end`", failure=False), True),
        (Abort("load.0: broken", failure=True), False),
    ],
)
def test_after_which_trial_no_other_one_is_opened(run, events, stopped, why, ends):
    abort(run.results / "live" / "t", why)
    events.job_failed(job())
    assert bool(stopped) == ends


def test_a_job_of_no_trial_is_told_with_its_log(run, events, capsys):
    for message, words in (
        ("", "failed; its log is logs/merge.log"),
        (
            report(reason="was ended by PBS: mem 9kb exceeded", cause=pbs_events.PBS),
            f"failed; PBS says: mem 9kb exceeded; its log is {PBS_LOG}",
        ),
        (
            "SLURM sbatch failed. The error message was 'invalid partition'.\n",
            "was refused: invalid partition",
        ),
    ):
        events.job_failed(job(message, trial="", log="logs/merge.log", rule="merge"))
        assert capsys.readouterr().err == f"storewise: the job `merge` {words}\n"
    events.job_failed(FailedJob("all", "1", [], [], ""))
    assert capsys.readouterr().err == "storewise: the job `all` failed\n"


def test_a_job_of_a_cluster_only_tells_of_signals(run, capsys):
    """Its own Snakemake is the script's parent, and knows no more."""
    exits = ScriptExits(run.results)
    abort_file = run.results / "live" / "t" / ABORT
    exits.job_started("7", "t")
    exits.error("Command 'x' returned non-zero exit status 1.")
    exits.job_failed(job())
    assert not abort_file.exists(), "its script has said why"
    exits.job_failed(job(trial=""))
    exits.error(KILLED)
    exits.job_failed(job())
    assert "was ended by SIGKILL" in read_abort(abort_file).reason
    assert capsys.readouterr().err == ""


def test_submitted_jobs_are_known_until_they_end(run, events, jobs):
    events.group_started("g", ["1", "2"])
    events.job_started("1", "t")
    events.job_started("3", "u")
    events.message("a line of another kind", {})
    events.message("", report(pbs_events.SUBMITTED, jobid="g"))
    events.message("Job 3 has been submitted with SLURM jobid 15 (log: x).", {})
    assert jobs.unfinished() == [ClusterJob("12.login", "pbs", "t"), ClusterJob("15", "slurm", "u")]
    events.job_finished("2")
    events.job_finished("3")
    assert jobs.unfinished() == []


def test_jobs_that_would_never_start_end_their_trial(run, events, jobs, monkeypatch, capsys):
    class Waiting:
        def __init__(self, name):
            assert name == "the-run"

        def never_starting(self):
            return {"15": "Slurm would never start job 15", "16": "nor job 16"}

        def cancel(self):
            events.ended.set()

    looks = []
    monkeypatch.setattr(job_events.slurm, "Waiting", Waiting)
    monkeypatch.setattr(job_events, "QUEUE_SECONDS", 0.001)
    monkeypatch.setattr(events, "_in_background", looks.append)
    jobs.submitted("3", ClusterJob("15", "slurm", "t"))
    events.message("SLURM run ID: the-run", {})
    looks.pop()()
    assert read_abort(run.results / "live" / "t" / ABORT).reason == "Slurm would never start job 15"
    assert capsys.readouterr().err == "storewise: nor job 16\n"
    # What ended long ago.
    events.ended.clear()
    aborted = []
    monkeypatch.setattr(
        jobs, "cancel_overdue", lambda names: aborted.append(names) or ["cancelled"]
    )
    monkeypatch.setattr(job_events, "say", lambda text: events.ended.set() or logging.info(text))
    events.cancel_overdue_jobs()
    looks.pop()()
    assert aborted == [["t"]]
