"""What the Slurm plugin says, which jobs Slurm never starts, and what a cluster's hosts have."""

import subprocess

import pytest

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
    assert slurm.lost_job(LOST) == "11"
    assert slurm.lost_job(ENDED.format("FAILED")) is None
    memory = "Slurm says OUT_OF_MEMORY of job 1, it used more memory than it asked for"
    assert str(slurm.ended_job(ENDED.format("OUT_OF_MEMORY"))).startswith(memory)
    assert slurm.cause(ENDED.format("OUT_OF_MEMORY")).startswith(memory)
    assert str(slurm.ended_job(ENDED.format("FAILED"))).endswith("its log may say more")
    assert slurm.ended_job(LOST) is None
    assert slurm.cause(ENDED.format("FAILED")) == slurm.cause(LOST) == ""


class Answers:
    """The commands of a scheduler: what each prints, or why it cannot be asked."""

    def __init__(self):
        self.says = {}
        self.status = 0
        self.calls = []

    def __call__(self, command, timeout):
        self.calls.append(list(command))
        said = self.says.get(command[0], FileNotFoundError(command[0]))
        if isinstance(said, Exception):
            raise said
        return subprocess.CompletedProcess(list(command), self.status, said, "")


@pytest.fixture
def answers(monkeypatch):
    made = Answers()
    for module in (slurm, hosts):
        monkeypatch.setattr(module, "run_command", made)
    return made


def test_a_job_that_can_only_wait_is_told_once_when_looks_agree(answers):
    waits = "7|PartitionTimeLimit|short|rule_load_wildcards_t_0\n8|Priority|main|rule_load\n"
    waiting = slurm.Waiting("run-1")
    answers.says["squeue"] = waits
    for _ in range(slurm.LOOKS - 1):
        assert waiting.never_starting() == {}
    answers.says["squeue"] = "7|Resources|short|rule_load_wildcards_t_0\n"
    assert waiting.never_starting() == {}, "a controller that had just started"
    answers.says["squeue"] = waits
    found = [waiting.never_starting() for _ in range(slurm.LOOKS + 1)]
    (sentence,) = found[slurm.LOOKS - 1].values()
    assert [len(one) for one in found] == [*[0] * (slurm.LOOKS - 1), 1, 0]
    assert sentence == (
        "Slurm would never start job 7 (load t_0) in partition short: PartitionTimeLimit. Change "
        "runtime and slurm_partition of `load` in the profile (set-resources, set-threads) or in "
        "the study"
    )
    assert "--name=run-1" in answers.calls[0] and "--states=PENDING" in answers.calls[0]
    for silent in (OSError("no squeue"), subprocess.TimeoutExpired("squeue", 30)):
        answers.says["squeue"] = silent
        assert waiting.never_starting() == {}


def test_how_many_hosts_a_job_has(answers):
    answers.says["squeue"] = "3\n"
    assert slurm.number_of_hosts("7") == 3
    answers.status = 1
    assert slurm.number_of_hosts("7") == 1
    answers.status, answers.says["squeue"] = 0, "\n"
    assert slurm.number_of_hosts("7") == 1


PBS = "n1\n  resources_available.ncpus = 16\n\nn2\n  resources_available.ncpus = 8\n"


@pytest.mark.parametrize(
    ("says", "status", "most"),
    [
        ({"sinfo": "8+\n64\n16\n"}, 0, 64),
        ({"pbsnodes": PBS}, 0, 16),
        ({"sinfo": "", "pbsnodes": "c1\n     np = 12\n"}, 0, 12),
        ({"sinfo": subprocess.TimeoutExpired("sinfo", 10), "pbsnodes": PBS}, 0, 16),
        ({"sinfo": "64\n", "pbsnodes": PBS}, 1, None),
        ({}, 0, None),
    ],
)
def test_processors_of_the_largest_host(says, status, most, answers):
    answers.says, answers.status = says, status
    assert hosts.most_processors() == most
