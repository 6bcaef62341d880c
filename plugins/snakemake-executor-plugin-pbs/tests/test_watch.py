"""Polling, the table of jobs, ways around an unreachable server, and deletion, without a PBS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded import answer
from snakemake_executor_plugin_pbs import deletion, script, server, submission, watch
from snakemake_executor_plugin_pbs.commands import Done, NoAnswer, run
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.qstat import JobState
from snakemake_executor_plugin_pbs.request import request_of
from snakemake_executor_plugin_pbs.server import Answer, Refused, Server
from snakemake_executor_plugin_pbs.settings import ExecutorSettings
from snakemake_executor_plugin_pbs.status import ServerStatus


class FakeServer(Server):
    """A server that answers what a test has put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, JobState] = {}
        self.silent = False
        self.hosts_down: dict[str, str] = {}
        self.deleted: list[tuple[str, bool]] = []
        self.asked = 0

    def states(self, ids: Sequence[str]) -> Answer:
        self.asked += 1
        if self.silent:
            raise NoAnswer("Connection refused")
        known = {job_id: self.jobs[job_id] for job_id in ids if job_id in self.jobs}
        return Answer(known, set(ids) - set(known))

    def delete(self, job_id: str, *, force: bool = False) -> str | None:
        if self.silent:
            raise NoAnswer("Connection refused")
        self.deleted.append((job_id, force))
        return None

    def down(self) -> dict[str, str]:
        return self.hosts_down

    def find(self, name: str) -> list[str]:
        return []


class Scene:
    def __init__(self, directory: Path) -> None:
        self.server, self.table = FakeServer(), JobTable()
        self.marks = directory / "marks"
        self.marks.mkdir()
        self.said: list[str] = []
        self.deleted: list[tuple[list[str], bool]] = []
        self.now = 0.0
        print_line = self.said.append
        self.status = ServerStatus(10.0, print_line, print_line, lambda: self.now)
        self.watch = watch.Watch(
            *(self.server, self.status, self.table, self.marks, 60.0, self.delete),
            lambda job, reason: self.said.append(f"{job.id}: {reason}"),
        )

    def delete(self, ids: Sequence[str], force: bool) -> None:
        self.deleted.append((list(ids), force))

    def job(self, job_id: str = "1.s", state: JobState | None = None) -> PbsJob:
        name = f"a.{job_id}"
        job = PbsJob(None, job_id, name, self.marks.parent / f"{name}.log", 0.0)
        job.announced = True
        self.table.add(job)
        if state is not None:
            self.server.jobs[job_id] = state
        return job

    def poll(self, now: float, stopping: bool = False) -> dict[str, str | None]:
        """Reasons by the ids of the jobs that are over."""
        self.now = now
        return {job.id: ending and ending.reason for job, ending in self.watch.poll(now, stopping)}

    def mark(self, job: PbsJob, status: int) -> None:
        script.start_mark(self.marks, job.name).write_text("1\n")
        script.exit_mark(self.marks, job.name).write_text(f"{status}\n")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


RUNS = JobState("R", exec_host="n1/0")


def test_a_mark_of_zero_is_enough(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    assert scene.poll(0) == {}
    scene.mark(job, 0)
    assert scene.poll(1) == {"1.s": None}
    assert scene.server.asked == 1
    assert scene.table.all() == []


def test_the_end_is_not_told_before_the_submission(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    job.announced = False
    scene.mark(job, 0)
    assert scene.poll(0) == {}
    job.announced = True
    assert scene.poll(1) == {"1.s": None}


def test_pbs_is_asked_why_a_job_failed(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    scene.poll(0)
    scene.mark(job, 143)
    assert scene.poll(1) == {}
    scene.server.jobs["1.s"] = JobState("F", -29, "n1/0", asked={"walltime": "00:01:00"})
    assert scene.poll(2) == {"1.s": "was ended by PBS: its walltime of 00:01:00 was exceeded"}


def test_a_reason_is_not_waited_for_long(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    scene.mark(job, 2)
    assert scene.poll(0) == {}
    assert scene.poll(6) == {"1.s": "ended with exit status 2"}


def test_a_silent_server_loses_no_job(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    other = scene.job("2.s", RUNS)
    scene.server.silent = True
    for now in range(300):
        assert scene.poll(now) == {}
    assert 4 <= scene.server.asked <= 6
    assert len(scene.said) == 1
    assert scene.said[0].startswith("PBS does not answer (Connection refused); asking again")
    scene.mark(job, 0)
    assert scene.poll(300) == {"1.s": None}
    scene.server.silent = False
    scene.poll(500)
    assert scene.said[1:] == ["PBS answers again."]
    assert scene.table.all() == [other]


def test_a_job_that_pbs_forgets(scene: Scene) -> None:
    scene.job()
    assert scene.poll(0) == {}
    assert scene.poll(59) == {}
    assert scene.poll(70) == {"1.s": "is not known to PBS any more"}


def test_a_host_that_is_down_for_long(scene: Scene) -> None:
    scene.job(state=RUNS)
    scene.job("3.s", RUNS)
    scene.job("2.s", JobState("R", exec_host="n2/0"))
    scene.server.hosts_down = {"n1.domain": "down"}
    ended = {}
    for now in range(0, 80, 10):
        ended |= scene.poll(now)
    lost = "lost its host n1: PBS reports it down for 60 s"
    assert ended == {"1.s": lost, "3.s": lost}
    assert scene.deleted == [(["1.s", "3.s"], True)]


def test_a_host_that_is_back_in_time(scene: Scene) -> None:
    scene.job(state=RUNS)
    for now in range(0, 200, 10):
        scene.server.hosts_down = {"n1": "down"} if now % 50 else {}
        assert scene.poll(now) == {}


def test_a_job_that_can_never_run(scene: Scene) -> None:
    for job_id in ("1.s", "2.s"):
        words = "Can Never Run: Insufficient amount of resource: host"
        scene.job(job_id, JobState("Q", comment=words))
    assert scene.poll(0) == {}
    assert scene.poll(10) == {}
    never = "would never start: Can Never Run: Insufficient amount of resource: host"
    assert scene.poll(20) == {"1.s": never, "2.s": never}
    assert scene.deleted == [(["1.s", "2.s"], False)]
    assert scene.table.to_delete() == ([], [])


def test_what_has_not_started_when_the_run_stops(scene: Scene) -> None:
    """Waiting jobs are deleted in one call of another process: a slow qdel must not block polls."""
    scene.job("1.s", RUNS)
    waiting = ["2.s", "4.s"]
    for job_id in waiting:
        scene.job(job_id, JobState("Q"))
    begun = scene.job("3.s", JobState("Q"))
    scene.poll(0)
    script.start_mark(scene.marks, begun.name).write_text("1\n")
    assert scene.poll(1, stopping=True) == dict.fromkeys(waiting, watch.NOT_STARTED.reason)
    assert scene.deleted == [(waiting, False)]
    assert scene.server.deleted == []


def test_why_jobs_wait_is_told_once_and_together(scene: Scene) -> None:
    for number in range(5):
        scene.job(f"{number}.s", JobState("Q", comment=f"Not Running: ncpus (R: 4 A: {number})"))
    scene.job("9.s", JobState("H", hold="u"))
    for now in range(0, 200, 10):
        scene.poll(now)
    assert scene.said == [
        "0.s: Not Running: ncpus (R: 4 A: 0) (and 4 more)",
        "9.s: held (Hold_Types = u)",
    ]


def test_what_is_left_of_a_run() -> None:
    table = JobTable()
    jobs = [PbsJob(None, job_id, "a", Path("l"), 0.0) for job_id in ("1.s", "2.s", "3.s")]
    table.add(jobs[0])
    table.add(jobs[1])
    table.remove(jobs[0])
    table.add_unneeded(["9.s"])
    for name in "bc":
        table.add_unconfirmed(name)
    assert table.to_delete() == (["2.s", "9.s"], ["b", "c"])
    # A job added meanwhile stays in the table.
    table.add(jobs[2])
    table.hand_over(["2.s", "9.s"], ["b"])
    assert table.to_delete() == (["3.s"], ["c"])
    table.confirm("c")
    assert table.to_delete() == (["3.s"], [])


def test_the_pauses_between_queries() -> None:
    now, said = 0.0, []
    status = ServerStatus(10.0, said.append, said.append, lambda: now)
    assert status.due()
    status.answered()
    now = 9
    assert not status.due()
    status.hurry()
    assert status.due()
    for _ in range(6):
        status.unanswered("Connection\nrefused")
    now = 9 + 119
    status.hurry()
    assert not status.due()
    now = 9 + 120
    assert status.due()
    status.answered()
    status.answered()
    assert said == [
        "PBS does not answer (Connection refused); asking again every 20 s. No job is lost by it.",
        "PBS answers again.",
    ]


def test_jobs_are_deleted_until_they_are_gone() -> None:
    pbs = FakeServer()
    pbs.jobs = {"1.s": RUNS, "2.s": JobState("Q"), "3.s": JobState("F", 0)}
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pbs.silent = 5 < now < 20
        if now > 30:
            pbs.jobs.pop("2.s", None)
        if ("1.s", True) in pbs.deleted:
            pbs.jobs["1.s"] = JobState("F", 265)

    notes: list[str] = []
    left = deletion.delete_until_gone(
        pbs, ["1.s", "2.s", "3.s"], [], clock=lambda: now, sleep=sleep, note=notes.append
    )
    assert left == []
    assert now > deletion.FORCE_AFTER
    assert pbs.deleted.count(("1.s", False)) == 1
    assert ("1.s", True) in pbs.deleted
    assert any("Connection refused" in note for note in notes)


def test_a_server_without_history_is_asked_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(command: Sequence[str], *_: object) -> Done:
        said = answer("no history" if "-x" in command else "no history many")
        return Done(said.exit_status, said.stdout, said.stderr)

    monkeypatch.setattr(server, "run", ask)
    pbs = Server()
    found = pbs.states(["9.login", "11.login"])
    assert not pbs.history
    assert found.unknown == {"11.login"}
    assert found.states["9.login"].letter == "R"


@pytest.mark.parametrize("title", ["server down qstat", "server down qdel"])
def test_a_server_that_is_down(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answer(title)
    monkeypatch.setattr(server, "run", lambda *_: Done(said.exit_status, said.stdout, said.stderr))
    with pytest.raises(NoAnswer, match="onnect"):
        Server().states(["1.login"])
    with pytest.raises(NoAnswer, match="onnect"):
        Server().delete("1.login")


def test_a_host_that_is_down_does_not_make_the_server_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = answer("qdel host down")
    monkeypatch.setattr(server, "run", lambda *_: Done(222, said.stdout, said.stderr))
    assert "could not connect to MOM" in str(Server().delete("1.login"))


def test_hosts_are_asked_for_again_soon_after_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, []

    def ask(*_: object) -> Done:
        asked.append(now)
        if len(asked) == 1:
            raise NoAnswer("down")
        return Done(0, answer("nodes").stdout, "")

    monkeypatch.setattr(server, "run", ask)
    monkeypatch.setattr(server.time, "monotonic", lambda: now)
    pbs = Server()
    assert pbs.hosts() == pbs.hosts() == []
    now = 31
    assert len(pbs.hosts()) == 4
    now = 600
    pbs.hosts()
    now = 632
    pbs.hosts()
    assert asked == [0, 31, 632]


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(NoAnswer, match="no answer within 0 s"):
        run(["sleep", "60"], 0.1)
    assert run(["sh", "-c", "echo a; echo a >&2; exit 3"], 10) == Done(3, "a\n", "a\n")


class Submitting:
    """What becomes of one submission, with a server whose qsub answers `answers`, and whose qselect
    answers `found`."""

    def __init__(self, answers: list[object], found: list[list[str]]) -> None:
        self.events: list[tuple[str, str]] = []
        self.stopping = False
        self.table = JobTable()
        outer = self

        class Planned(FakeServer):
            def submit(self, command: Sequence[str]) -> str:
                outer.events.append(("qsub", command[2]))
                step = answers.pop(0)
                if isinstance(step, Exception):
                    raise step
                return str(step)

            def find(self, name: str) -> list[str]:
                return found.pop(0)

            def hosts(self) -> list[server.hosts.Host]:
                return []

        self.submitter = submission.Submitter(
            *(Planned(), self.table, SimpleNamespace(answered=print, unanswered=print)),
            accepted=lambda _, job_id: self.events.append(("accepted", job_id)),
            refused=lambda _, reason: self.events.append(("refused", reason)),
            stopping=lambda: self.stopping,
        )

    def run(self) -> list[tuple[str, str]]:
        request = request_of("a", 1, {}, ExecutorSettings())
        self.submitter.submit(submission.Submission(None, request, "a-1", Path("/s"), Path("/l")))
        return self.events


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "FIRST_PAUSE", 0.001)


@pytest.mark.usefixtures("quick")
def test_a_lost_answer_is_no_second_job() -> None:
    lost = Submitting([NoAnswer("timed out")], [["7.s", "8.s"]])
    assert lost.run() == [("qsub", "a-1"), ("accepted", "7.s")]
    assert lost.table.to_delete() == (["8.s"], ["a-1"])
    assert Submitting([NoAnswer("timed out"), "9.s"], [[]]).run() == [
        *(("qsub", "a-1"), ("qsub", "a-1"), ("accepted", "9.s"))
    ]


def test_a_refused_job_and_one_of_a_run_that_stops() -> None:
    refused = Submitting([Refused("qsub: Unknown queue")], [])
    (_, (event, text)) = refused.run()
    assert event == "refused"
    assert text.startswith("qsub: Unknown queue. Command: qsub -N a-1 ")
    assert refused.table.to_delete() == ([], [])
    stopped = Submitting([], [])
    stopped.stopping = True
    ((event, text),) = stopped.run()
    assert event == "refused"
    assert text.startswith(submission.RUN_STOPPED)


def test_jobs_that_cannot_be_deleted_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    order = tmp_path / "cancel.1.json"
    order.write_text(json.dumps({"ids": ["1.head"], "names": [], "force": False}))
    assert deletion.main(order) == 1
    assert capsys.readouterr().err.endswith(" given up; PBS may still have: 1.head\n")
    assert not order.exists()
