"""What the PBS plugin reports, read back: its own code makes the reports here."""

import pytest
from snakemake_executor_plugin_pbs import events

from storewise.errors import ConfigError
from storewise.run.job_events import FailedJob, reason_of
from storewise.run.run_log import note_of
from storewise.schedulers import pbs

LOG = "/home/u/x y/.snakemake/pbs_logs/r/data0.pg.log"


def report(event=events.FAILED, reason="", **more):
    return events.Event(event, "load.0.pg-1", "7", "12.login", LOG, reason, **more).data


@pytest.mark.parametrize(
    ("reason", "by", "cause"),
    [
        ("was ended by PBS: walltime 78 exceeded limit 60", events.PBS, "walltime 78 exceeded"),
        ("was deleted by u@login", events.PBS, "was deleted by u@login"),
        ("lost its host n3: Job deleted, execution node n3 down", events.HOST, "lost its host n3"),
        ("ended with exit status 1", events.EXIT, ""),
    ],
)
def test_a_failed_job(reason, by, cause):
    failed = report(reason=reason, cause=by)
    # Of a job alone, and of one in a group.
    for record in ({"aux": {"pbs": failed}}, {"pbs": failed, "aux": None}):
        assert pbs.report_of(record) == failed
    assert pbs.cause(failed).startswith(f"PBS says: {cause}" if cause else "")
    assert bool(pbs.cause(failed)) == bool(cause)
    job = FailedJob("load", "7", [], ["results/s/logs/t/load.0.log"], "", failed)
    assert reason_of(None, job, None, "").reason == f"load.0 {reason}; PBS's log of it: {LOG}"


def test_a_refused_job():
    refused = report(events.REFUSED, "qsub: Unknown queue")
    assert pbs.refusal(refused) == "PBS did not accept load.0.pg-1: qsub: Unknown queue"
    assert pbs.refusal(report()) == pbs.refusal({}) == pbs.cause(refused) == pbs.cause({}) == ""
    job = FailedJob("load", "7", [], [], "", refused)
    assert reason_of(None, job, None, "").reason.startswith("load was refused: PBS did not accept")


def test_records_of_others():
    for record in ({}, {"aux": None}, {"aux": {"external_jobid": "1"}}):
        assert pbs.report_of(record) == {}


def test_a_waiting_user_sees_what_the_plugin_says():
    said = [
        report(events.WAITING, "Not Running: Queue not started.")["message"],
        events.no_answer("qstat: cannot connect to server", 10),
        events.ANSWERS_AGAIN,
    ]
    assert [note_of(line) for line in said] == said
    assert note_of(report(events.SUBMITTED)["message"]) is None


def test_hosts_of_classes_in_one_queue():
    classes = {"data": "host_type=small", "large": "host_type=big:ngpus=0"}
    assert pbs.parse_selects("data=host_type=small, large=host_type=big:ngpus=0") == classes
    assert pbs.parse_selects("") == {}
    for text in ("large", "large=", "=a=b", "large=a b"):
        with pytest.raises(ConfigError, match=r"node_selects of the profile: .*expected CLASS="):
            pbs.parse_selects(text)
