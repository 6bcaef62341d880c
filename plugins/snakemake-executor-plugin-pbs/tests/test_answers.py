"""What is made of PBS's answers: qstat, pbsnodes, reasons."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded import answer
from snakemake_executor_plugin_pbs import hosts, qstat, reasons
from snakemake_executor_plugin_pbs.events import EXIT, HOST, PBS
from snakemake_executor_plugin_pbs.qstat import JobState


def states(title: str) -> dict[str, JobState]:
    return qstat.parse(answer(title).stdout)


def one(title: str) -> JobState:
    (state,) = states(title).values()
    return state


def ending(state: JobState | None, mark: int | None = None, log: str = "") -> str:
    return reasons.ending(state, mark, log).reason


def test_text_of_many_jobs() -> None:
    many = states("many")
    assert {job_id: (s.letter, s.exit_status) for job_id, s in many.items()} == {
        "1.login": ("R", None),
        "3.login": ("F", 0),
        "4.login": ("F", 3),
        "5.login": ("F", 137),
        "7.login": ("Q", None),
    }
    assert many["7.login"].comment == (
        "Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 16 T: 16)"
    )
    assert many["1.login"].exec_host == "n1/0"
    assert many["1.login"].asked["walltime"] == "00:10:00"


def test_answers_that_are_cut_off() -> None:
    for text in (answer("many").stdout[:-1], "Job Id: 1.login\n\n", "qstat: what\n\n"):
        with pytest.raises(ValueError, match="qstat"):
            qstat.parse(text)


def test_unknown_jobs() -> None:
    unknown = answer("unknown")
    assert qstat.unknown_ids(unknown.stderr, ["99999.login", "1.login"]) == {"99999.login"}
    without = answer("without -x").stderr
    assert qstat.unknown_ids(without, ["1", "3", "4", "5"]) == {"3", "4", "5"}
    assert qstat.NO_HISTORY in answer("no history").stderr.lower()
    many = answer("no history many")
    ids = ["9.login", "11.login", "12.login", "13.login", "15.login"]
    assert qstat.unknown_ids(many.stderr, ids) == {"11.login", "12.login", "13.login"}
    assert set(qstat.parse(many.stdout)) == {"9.login", "15.login"}


def test_hosts() -> None:
    found = hosts.hosts_of(answer("nodes").stdout)
    assert [host.name for host in found] == ["n1", "n2", "n3", "n4"]
    assert all(host.cpus and host.memory for host in found)
    vnodes = "".join(
        f"n1[{n}]\n     state = free\n     resources_available.host = n1\n"
        "     resources_available.ncpus = 8\n     resources_available.mem = 2gb\n\n"
        for n in (0, 1)
    )
    assert hosts.hosts_of(vnodes) == [hosts.Host("n1", 16, 4096)]
    assert hosts.hosts_of("n1\n     state = free\n") == [hosts.Host("n1", None, None)]


def test_hosts_that_are_down() -> None:
    assert hosts.down_of(answer("hosts down").stdout) == {"n5": "down"}
    assert hosts.down_of("n1   offline\nn2   down,offline\nn3   state-unknown,down\n") == {
        "n2": "down,offline",
        "n3": "state-unknown,down",
    }
    assert hosts.down_of('{\n    "down": 1\n}') == {}
    assert hosts.names_of("n1/0*4+n2/0*4+n1/1") == ("n1", "n2")


def test_how_jobs_ended() -> None:
    many = states("many")
    assert ending(many["4.login"]) == "ended with exit status 3"
    assert ending(many["5.login"]) == "ended with exit status 137 (signal 9, SIGKILL)"
    assert ending(one("wall time")) == (
        "was ended by PBS: its walltime of 00:00:05 was exceeded (used 00:00:10)"
    )
    assert ending(one("deleted")) == "was deleted by user@login"
    assert ending(one("forced")).startswith("was deleted")
    assert ending(one("deleted waiting")).startswith("was deleted before it started: Can Never Run")


def test_the_log_tells_first() -> None:
    log = "working\n=>> PBS: job killed: walltime 78 exceeded limit 60\nTerminated\n"
    what = "was ended by PBS: walltime 78 exceeded limit 60"
    assert ending(one("wall time"), log=log) == what
    assert ending(None, 143, log) == what
    assert ending(None) == "is not known to PBS any more"
    assert ending(None, 1) == "ended with exit status 1"


def test_the_exit_status_is_that_of_the_rule_s_command(tmp_path: Path) -> None:
    """Each job runs Snakemake, which exits with 1 whatever the exit status of the command."""
    rules = "".join(
        f"rule {name}:\n    output: '{name}'\n    shell: '{command}'\n"
        for name, command in (("seven", "exit 7"), ("nine", "kill -9 $$"))
    )
    (tmp_path / "Snakefile").write_text(rules)
    for rule, what in (
        ("seven", "ended with exit status 7"),
        ("nine", "ended with exit status 137 (signal 9, SIGKILL)"),
    ):
        command = [sys.executable, "-m", "snakemake", "-c1", rule]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1
        assert ending(None, 1, done.stderr) == what
        assert ending(None, 2, done.stderr) == "ended with exit status 2"


def test_a_job_that_pbs_still_takes_for_running() -> None:
    assert ending(one("being deleted"), 143) == "was deleted by user@login"
    assert ending(states("many")["1.login"], 1) == "ended with exit status 1"


def test_lost_hosts() -> None:
    lost = states("host lost")["17.login"]
    assert ending(lost) == "lost its host n1: PBS lost the connection to it"
    assert ending(one("mom started again")).startswith("lost its host n1: ")
    told = JobState("F", None, "n3/0", "Job deleted, execution node n3 down")
    assert ending(told) == "lost its host n3: Job deleted, execution node n3 down"


def test_the_cause_of_an_end() -> None:
    assert reasons.ending(None, 3, "").cause == EXIT
    assert reasons.ending(one("deleted"), 143, "").cause == PBS
    lost = reasons.ending(states("host lost")["17.login"], None, "")
    assert (lost.cause, lost.host) == (HOST, "n1")
    full = JobState("F", 137, "n1/0", used={"mem": "2040mb"}, asked={"mem": "2gb"})
    assert reasons.ending(full, None, "").cause == PBS


def test_limits() -> None:
    memory = JobState("F", -27, "n1/0", used={"mem": "2100mb"}, asked={"mem": "2gb"})
    assert ending(memory) == "was ended by PBS: its mem of 2gb was exceeded (used 2100mb)"
    killed = JobState("F", 137, "n1/0", used={"mem": "2040mb"}, asked={"mem": "2gb"})
    assert ending(killed).endswith("it had used 2040 MB of the 2048 MB that it asked for")


def test_why_jobs_wait() -> None:
    assert reasons.waits(one("held")) == "Job held by user on Sun Nov 22 20:31:12 2026"
    assert reasons.waits(JobState("H", hold="u")) == "held (Hold_Types = u)"
    never = states("many")["7.login"]
    assert reasons.can_never_run(never.comment)
    assert not reasons.can_never_run("Not Running: Queue not started.")
    assert reasons.without_numbers("Not Running: ncpus (R: 4 A: 2)") == reasons.without_numbers(
        "Not Running: ncpus (R: 4 A: 1)"
    )
