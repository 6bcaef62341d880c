"""What the Slurm plugin says, which jobs Slurm never starts, and what a cluster's hosts have."""

import subprocess

import pytest

from storewise.errors import StorewiseError
from storewise.schedulers import hosts, slurm

ENDED = "SLURM-job '1' failed, SLURM status is: '{}'. Detailed failure"
LOST = "SLURM-job '11' failed due to a node failure, SLURM status is: 'NO"


def test_messages_of_the_plugin():
    assert slurm.run_name("SLURM run ID: 44e506f1-139b-42d4") == "44e506f1-139b-42d4"
    submitted = "Job 3 has been submitted with SLURM jobid 13 (log: x)."
    assert slurm.run_name(submitted) is None
    assert slurm.submitted_job(f"{submitted}\n") == ("3", "13")
    assert slurm.submitted_job("SLURM run ID: 44e506f1") is None
    text = (
        "SLURM sbatch failed. The error message was 'sbatch: error: a\nsbatch: b'.\n    sbatch call"
    )
    assert slurm.refusal(text) == "sbatch: error: a sbatch: b"
    assert slurm.refusal(ENDED.format("FAILED")) is None
    assert slurm.host_was_lost(LOST)
    assert not slurm.host_was_lost(ENDED.format("FAILED"))
    memory = "Slurm says OUT_OF_MEMORY of job 1, it used more memory than it asked for"
    how, by_slurm = slurm.end_of_job(ENDED.format("OUT_OF_MEMORY"))
    assert how.startswith(memory) and by_slurm
    how, by_slurm = slurm.end_of_job(ENDED.format("FAILED"))
    assert how.endswith("its log may say more") and not by_slurm
    assert slurm.end_of_job(LOST) == ("", False)


def test_a_job_that_can_only_wait_is_told_once_when_looks_agree(commands):
    waits = "7|PartitionTimeLimit|short|rule_load_wildcards_t_0\n8|Priority|main|rule_load\n"
    waits += "a comment's second line\n\n"
    waiting = slurm.Waiting("run-1")

    def look(answer):
        commands.answer = lambda words: (answer, "", 0)
        return waiting.never_starting()

    assert [look(waits) for _ in range(slurm.LOOKS - 1)] == [{}] * (slurm.LOOKS - 1)
    assert look(waits.replace("PartitionTimeLimit", "Resources")) == {}, "a controller's start"
    *early, told, again = [look(waits) for _ in range(slurm.LOOKS + 1)]
    assert early == [{}] * (slurm.LOOKS - 1) and again == {}
    (sentence,) = told.values()
    assert sentence == (
        "Slurm would never start job 7 (load t_0) in partition short: PartitionTimeLimit. Change "
        "runtime and slurm_partition of `load` in the profile (set-resources, set-threads) or in "
        "the study"
    )
    assert "--name=run-1" in commands.calls[0] and "--states=PENDING" in commands.calls[0]
    # A Slurm that is slow to take it is asked again, until it has gone.
    for answer in (raising(subprocess.TimeoutExpired("scancel", 30)), lambda words: ("", "", 0)):
        commands.answer = answer
        waiting.cancel()
        assert commands.calls[-1] == ["scancel", "7"]
    look("")
    waiting.cancel()
    assert commands.calls[-1][0] == "squeue"
    for error in (OSError("no squeue"), subprocess.TimeoutExpired("squeue", 30)):
        commands.answer = raising(error)
        assert waiting.never_starting() == {}


def raising(error):
    def answer(words):
        raise error

    return answer


def test_how_many_hosts_a_job_has_or_that_nobody_says(commands):
    commands.answer = lambda words: ("3\n", "", 0)
    assert slurm.number_of_hosts("7") == 3
    for answer, words in (
        (lambda words: ("3\n", "Socket timed out", 1), "job 7 runs.*Socket timed out"),
        (lambda words: ("\n", "", 0), "job 7 runs.*no output"),
        (raising(subprocess.TimeoutExpired("squeue", 30)), "timed out after 30 seconds"),
    ):
        commands.answer = answer
        with pytest.raises(StorewiseError, match=words):
            slurm.number_of_hosts("7")


PBS = "n1\n  resources_available.ncpus = 16\n\nn2\n  resources_available.ncpus = 8\n"


@pytest.mark.parametrize(
    ("says", "status", "most"),
    [
        ({"sinfo": "8+\n64\n16\n"}, 0, 64),
        ({"pbsnodes": PBS}, 0, 16),
        ({"sinfo": subprocess.TimeoutExpired("sinfo", 10), "pbsnodes": PBS}, 0, 16),
        ({"sinfo": "64\n", "pbsnodes": PBS}, 1, None),
        ({}, 0, None),
    ],
)
def test_processors_of_the_largest_host(says, status, most, commands):
    def answer(words):
        said = says.get(words[0], FileNotFoundError(words[0]))
        return (said, "", status) if isinstance(said, str) else raising(said)(words)

    commands.answer = answer
    assert hosts.most_processors() == most
