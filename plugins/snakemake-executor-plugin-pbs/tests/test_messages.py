from __future__ import annotations

import pytest
from snakemake_executor_plugin_pbs import messages

LOG = "/data/a run/.snakemake/pbs_logs/1/sort.a-0f12ab.log"
APPENDED = (
    "For further error details see the cluster/cloud log and the log files of the involved rule(s)."
)


def test_a_submission_is_read_back() -> None:
    text = messages.submitted("12", "19[3].server", "sort.a-0f12ab", LOG)
    assert text == f"Job 12 was submitted as PBS job 19[3].server (sort.a-0f12ab); log: {LOG}"
    assert messages.submitted_of(text) == messages.Submitted(
        "12", "19[3].server", "sort.a-0f12ab", LOG
    )


@pytest.mark.parametrize(
    "what",
    [
        "was ended by PBS: walltime 78 exceeded limit 60",
        "ended with exit status 1",
        "lost its host n3: Job deleted, execution node n3 down",
        "would never start: Can Never Run: Not enough (R: 64 A: 16 T: 16). Its end",
    ],
)
@pytest.mark.parametrize("appended", ["", APPENDED])
def test_a_failure_is_read_back(what: str, appended: str) -> None:
    text = messages.failed("19.server", "sort.a-0f12ab", what, LOG)
    assert text == f"PBS job 19.server (sort.a-0f12ab) {what}. Its log: {LOG}"
    assert messages.failed_of(text + appended) == messages.Failed(
        "19.server", "sort.a-0f12ab", what, LOG
    )


def test_a_lost_host_is_read_back() -> None:
    what = messages.lost_host("n3", "PBS reports it\n down for 61 s")
    assert what == "lost its host n3: PBS reports it down for 61 s"
    for text in (what, messages.failed("19.server", "a-0f12ab", what, LOG)):
        assert messages.lost_host_of(text) == messages.LostHost(
            "n3", "PBS reports it down for 61 s"
        )
    assert messages.lost_host_of(messages.failed("19.s", "a", "ended", LOG)) is None


def test_a_refusal_is_read_back() -> None:
    text = messages.refused(
        "sort.a",
        "qsub: Unknown queue",
        "qsub -N a -l 'select=1:x=a b' s.sh",
        "take another; or not",
    )
    assert text == (
        "PBS did not take sort.a: qsub: Unknown queue. Asked: qsub -N a -l 'select=1:x=a b' s.sh; "
        "take another; or not"
    )
    refused = messages.refused_of(text + APPENDED)
    assert refused is not None
    assert (refused.name, refused.words) == ("sort.a", "qsub: Unknown queue")


def test_a_waiting_job_is_read_back() -> None:
    text = messages.waiting("19.server", "a-0f12ab", "Not Running: Queue not started.")
    assert messages.waiting_of(text) == messages.Waiting(
        "19.server", "a-0f12ab", "Not Running: Queue not started."
    )


def test_other_lines_are_none_of_these() -> None:
    line = "Finished jobid: 3 (Rule: sort)"
    assert messages.submitted_of(line) is None
    assert messages.failed_of(line) is None
    assert messages.refused_of(line) is None
    assert messages.waiting_of(line) is None
    assert messages.lost_host_of(line) is None


def test_the_silence_of_a_server() -> None:
    assert messages.silent("Connection refused\n", 20.0) == (
        "PBS does not answer (Connection refused); asking again every 20 s. No job is lost by it."
    )
    assert messages.ANSWERS_AGAIN == "PBS answers again."
