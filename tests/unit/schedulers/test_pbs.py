"""What the PBS plugin says, read back: its own functions say it here, so the two cannot drift."""

import pytest
from snakemake_executor_plugin_pbs import messages

from storewise.errors import ConfigError
from storewise.run.run_log import note_of
from storewise.schedulers import pbs

#: What Snakemake's remote executors append to each error, without a space.
APPENDED = (
    "For further error details see the cluster/cloud log and the log files of the involved rule(s)."
)
MEMORY = "ended with exit status 137 (signal 9, SIGKILL); it had used 9 MB of the 9 MB"
LOG = "/home/u/x y/.snakemake/pbs_logs/r/data0.pg.log"


@pytest.mark.parametrize("job_id", ["12.login", "19[3].login"])
def test_a_submitted_job(job_id):
    said = messages.submitted("7", job_id, "data0.pg-w2-r1", LOG)
    assert pbs.submitted_job(said) == ("7", job_id)
    assert pbs.submitted_job("Job 7 has been submitted with SLURM jobid 13 (log: x).") is None


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("was ended by PBS: walltime 78 exceeded limit 60", "walltime 78 exceeded limit 60"),
        ("was deleted by u@login", "was deleted by u@login"),
        ("would never start: Can Never Run: x", "would never start: Can Never Run: x"),
        ("ended with exit status 1", ""),
        ("ended with exit status 137 (signal 9, SIGKILL)", ""),
        (MEMORY, MEMORY),
    ],
)
def test_a_failed_job(what, cause):
    said, failed = messages.failed("12.login", "load.0.pg", what, LOG), pbs.Failed(what, LOG)
    assert pbs.failed_job(said + APPENDED) == pbs.failed_job(said) == failed
    assert failed.cause == (f"PBS says: {cause}" if cause else "")
    assert failed.lost_host == ""


def test_a_lost_host_and_a_refused_job():
    what = messages.lost_host("n3", "Job deleted, execution node n3 down")
    said = messages.failed("12.login", "load.0.pg", what, LOG)
    assert pbs.failed_job(said + APPENDED).lost_host == "n3"
    assert pbs.refusal(said) is None
    said = messages.refused("a.b", "qsub: Unknown queue", "qsub -N a.b -q x", "look at the queue")
    assert pbs.refusal(said + APPENDED) == said


def test_what_a_user_who_waits_is_told():
    said = [
        messages.waiting("12.login", "load.0.pg", "Not Running: Queue not started."),
        messages.silent("qstat: cannot connect to server", 10),
        messages.ANSWERS_AGAIN,
        messages.ignored_resource("gpu_model", "load.0.pg"),
    ]
    assert [pbs.notice(line) for line in said] == [note_of(line) for line in said] == said
    assert pbs.notice(messages.submitted("7", "12.login", "a", LOG)) is None


def test_hosts_of_classes_in_one_queue():
    classes = {"data": "host_type=small", "large": "host_type=big:ngpus=0"}
    assert pbs.parse_selects("data=host_type=small, large=host_type=big:ngpus=0") == classes
    assert pbs.parse_selects("") == {}
    for text in ("large", "large=", "=a=b", "large=a b"):
        with pytest.raises(ConfigError, match=r"node_selects of the profile: .*expected CLASS="):
            pbs.parse_selects(text)
