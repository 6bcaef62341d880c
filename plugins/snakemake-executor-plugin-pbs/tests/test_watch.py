"""The watch, the table, the server's ways around, and the deletion of jobs, with a PBS of words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from recorded import answer
from snakemake_executor_plugin_pbs import cancel, script, server, submission, watch
from snakemake_executor_plugin_pbs.commands import Done, NoAnswer, Pace, run
from snakemake_executor_plugin_pbs.dialects import OPENPBS
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.qstat import JobState
from snakemake_executor_plugin_pbs.request import request_of
from snakemake_executor_plugin_pbs.server import Answer, Hosts, Refused, Server
from snakemake_executor_plugin_pbs.settings import ExecutorSettings


class Words(Server):
    """A server that says what a test has put into it."""

    def __init__(self) -> None:
        super().__init__(OPENPBS)
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
        self.server, self.table = Words(), JobTable()
        self.marks = directory / "marks"
        self.marks.mkdir()
        self.said: list[str] = []
        self.deleted: list[tuple[list[str], bool]] = []
        self.watch = watch.Watch(
            *(self.server, self.table, self.marks, 10.0, 60.0, self.delete),
            *(self.said.append, self.said.append),
        )

    def delete(self, ids: Sequence[str], /, *, force: bool = False) -> None:
        self.deleted.append((list(ids), force))

    def job(self, job_id: str = "1.s", state: JobState | None = None) -> PbsJob:
        key = f"a.{job_id}"
        job = PbsJob(None, job_id, "a", key, self.marks.parent / f"{key}.log", 0.0)
        job.announced = True
        self.table.add([job])
        if state is not None:
            self.server.jobs[job_id] = state
        return job

    def look(self, now: float, stopping: bool = False) -> dict[str, str | None]:
        return {ended.job.id: ended.what for ended in self.watch.look(now, stopping)}

    def mark(self, job: PbsJob, status: int) -> None:
        script.start_mark(self.marks, job.key).write_text("1\n")
        script.exit_mark(self.marks, job.key).write_text(f"{status}\n")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


RUNS = JobState("R", exec_host="n1/0")


def test_a_mark_of_zero_is_enough(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    assert scene.look(0) == {}
    scene.mark(job, 0)
    assert scene.look(1) == {"1.s": None}
    assert scene.server.asked == 1
    assert scene.table.all() == []


def test_the_end_is_not_told_before_the_submission(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    job.announced = False
    scene.mark(job, 0)
    assert scene.look(0) == {}
    job.announced = True
    assert scene.look(1) == {"1.s": None}


def test_pbs_is_asked_why_a_job_failed(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    scene.look(0)
    scene.mark(job, 143)
    assert scene.look(1) == {}
    scene.server.jobs["1.s"] = JobState("F", -29, "n1/0", asked=(("walltime", "00:01:00"),))
    assert scene.look(2) == {"1.s": "was ended by PBS: its walltime of 00:01:00 was exceeded"}


def test_a_reason_is_not_waited_for_long(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    scene.mark(job, 2)
    assert scene.look(0) == {}
    assert scene.look(6) == {"1.s": "ended with exit status 2"}


def test_a_silent_server_loses_no_job(scene: Scene) -> None:
    job = scene.job(state=RUNS)
    other = scene.job("2.s", RUNS)
    scene.server.silent = True
    for now in range(300):
        assert scene.look(now) == {}
    assert 4 <= scene.server.asked <= 6
    assert len(scene.said) == 1
    assert scene.said[0].startswith("PBS does not answer (Connection refused); asking again")
    scene.mark(job, 0)
    assert scene.look(300) == {"1.s": None}
    scene.server.silent = False
    scene.look(500)
    assert scene.said[1:] == ["PBS answers again."]
    assert scene.table.all() == [other]


def test_a_job_that_pbs_forgets(scene: Scene) -> None:
    scene.job()
    assert scene.look(0) == {}
    assert scene.look(59) == {}
    assert scene.look(70) == {"1.s": "is not known to PBS any more"}


def test_a_task_that_is_over_without_a_word(scene: Scene) -> None:
    done, gone = scene.job("1[0].s", RUNS), scene.job("1[1].s", JobState("Q"))
    scene.look(0)
    over = JobState("X", 1, "", "Subjob finished")
    scene.server.jobs.update({"1[0].s": over, "1[1].s": over})
    assert scene.look(10) == {}
    scene.mark(done, 0)
    assert scene.look(15) == {"1[0].s": None}
    assert scene.look(25) == {"1[1].s": "was deleted before it started: Subjob finished"}
    assert gone not in scene.table.all()


def test_a_task_that_pbs_would_run_again(scene: Scene) -> None:
    job = scene.job("1[0].s", RUNS)
    scene.job("1[1].s", RUNS)
    script.start_mark(scene.marks, job.key).write_text("1\n")
    scene.look(0)
    scene.server.jobs["1[0].s"] = JobState("Q", -20)
    assert scene.look(10) == {"1[0].s": "lost its host n1: PBS sent the job back to its queue"}
    assert scene.deleted == [(["1[0].s"], False)]


def test_a_host_that_is_down_for_long(scene: Scene) -> None:
    scene.job(state=RUNS)
    scene.job("3.s", RUNS)
    scene.job("2.s", JobState("R", exec_host="n2/0"))
    scene.server.hosts_down = {"n1.domain": "down"}
    ended = {}
    for now in range(0, 80, 10):
        ended |= scene.look(now)
    lost = "lost its host n1: PBS reports it down for 60 s"
    assert ended == {"1.s": lost, "3.s": lost}
    assert scene.deleted == [(["1.s", "3.s"], True)]
    assert scene.watch.lost == {"n1"}


def test_a_host_that_is_back_in_time(scene: Scene) -> None:
    scene.job(state=RUNS)
    for now in range(0, 200, 10):
        scene.server.hosts_down = {"n1": "down"} if now % 50 else {}
        assert scene.look(now) == {}


def test_a_job_that_can_never_run(scene: Scene) -> None:
    for job_id in ("1.s", "2.s"):
        words = "Can Never Run: Insufficient amount of resource: host"
        scene.job(job_id, JobState("Q", comment=words))
    assert scene.look(0) == {}
    assert scene.look(10) == {}
    never = "would never start: Can Never Run: Insufficient amount of resource: host"
    assert scene.look(20) == {"1.s": never, "2.s": never}
    assert scene.deleted == [(["1.s", "2.s"], False)]
    assert scene.table.to_delete() == ([], [])


def test_what_has_not_started_when_the_run_stops(scene: Scene) -> None:
    """Waiting jobs are deleted in one call of another process: a slow qdel must not block polls."""
    scene.job("1.s", RUNS)
    waiting = ["2.s", "4[0].s", "4[1].s"]
    for job_id in waiting:
        scene.job(job_id, JobState("Q"))
    begun = scene.job("3.s", JobState("Q"))
    scene.look(0)
    script.start_mark(scene.marks, begun.key).write_text("1\n")
    assert scene.look(1, stopping=True) == dict.fromkeys(waiting, watch.NOT_STARTED)
    assert scene.deleted == [(["2.s", "4[].s"], False)]
    assert scene.server.deleted == []


def test_why_jobs_wait_is_told_once_and_together(scene: Scene) -> None:
    for number in range(5):
        scene.job(f"{number}.s", JobState("Q", comment=f"Not Running: ncpus (R: 4 A: {number})"))
    scene.job("9.s", JobState("H", hold="u"))
    for now in range(0, 200, 10):
        scene.look(now)
    assert scene.said == [
        "PBS job 0.s (a) waits: Not Running: ncpus (R: 4 A: 0) (and 4 more jobs)",
        "PBS job 9.s (a) waits: held (Hold_Types = u)",
    ]


def test_what_is_left_of_a_run() -> None:
    table = JobTable()
    jobs = {n: PbsJob(None, n, "a", "a", Path("l"), 0.0) for n in ("1[0].s", "1[1].s", "2.s")}
    table.add(jobs.values())
    assert table.whole_arrays(list(jobs)) == ["2.s", "1[].s"]
    table.remove(jobs["1[0].s"])
    for name in "bc":
        table.add_unconfirmed(name)
    assert table.to_delete() == (["1[1].s", "2.s"], ["b", "c"])
    assert table.whole_arrays(["1[1].s", "2.s"]) == ["1[1].s", "2.s"]
    # A job added meanwhile stays in the table.
    table.add([PbsJob(None, "3.s", "c", "c", Path("l"), 0.0)])
    table.mark_handed_over(["1[1].s", "2.s"], ["b"])
    assert table.to_delete() == (["3.s"], ["c"])
    assert table.unconfirmed_names() == {"b", "c"}
    table.confirm("b")
    assert table.unconfirmed_names() == {"c"}


def test_the_pace_of_questions() -> None:
    pace = Pace(10.0)
    assert pace.due(0)
    assert not pace.answered(0)
    assert not pace.due(9)
    pace.hurry()
    assert pace.due(1)
    assert [pace.unanswered(0) for _ in range(6)] == [True, *[False] * 5]
    assert pace.pause == 120
    pace.hurry()
    assert not pace.due(100)
    assert pace.answered(200)


def test_jobs_are_deleted_until_they_are_gone() -> None:
    words = Words()
    words.jobs = {"1.s": RUNS, "2.s": JobState("Q"), "3.s": JobState("F", 0)}
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        words.silent = 5 < now < 20
        if now > 30:
            words.jobs.pop("2.s", None)
        if ("1.s", True) in words.deleted:
            words.jobs["1.s"] = JobState("F", 265)

    notes: list[str] = []
    left = cancel.delete_until_gone(
        words, ["1.s", "2.s", "3.s"], [], clock=lambda: now, sleep=sleep, note=notes.append
    )
    assert left == []
    assert now > cancel.FORCE_AFTER
    assert words.deleted.count(("1.s", False)) == 1
    assert ("1.s", True) in words.deleted
    assert any("Connection refused" in note for note in notes)


def test_json_of_several_jobs_is_given_up_where_it_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def ask(command: Sequence[str], *_: object) -> Done:
        asked.append(list(command))
        title = "json" if "json" in command else "many"
        return Done(0, answer(title).stdout, "")

    monkeypatch.setattr(server, "run", ask)
    pbs = Server(OPENPBS)
    ids = ["1.login", "3.login"]
    assert set(pbs.states(ids).states) == set(ids)
    assert set(pbs.states(ids).states) == set(ids)
    assert ["json" in command for command in asked] == [True, False, False]


def test_a_server_without_history_is_asked_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(command: Sequence[str], *_: object) -> Done:
        if "-x" in command:
            return Done(0, answer("json no history").stdout, answer("no history").stderr)
        assert "json" in command or "-f" in command
        many = answer("no history many")
        return Done(many.exit_status, many.stdout if "json" not in command else "", many.stderr)

    monkeypatch.setattr(server, "run", ask)
    pbs = Server(OPENPBS)
    pbs.json = False
    found = pbs.states(["9.login", "11.login"])
    assert not pbs.history
    assert found.unknown == {"11.login"}
    assert found.states["9.login"].letter == "R"


@pytest.mark.parametrize("title", ["server down qstat", "server down qdel"])
def test_a_server_that_is_down(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answer(title)
    monkeypatch.setattr(server, "run", lambda *_: Done(said.exit_status, said.stdout, said.stderr))
    with pytest.raises(NoAnswer, match="onnect"):
        Server(OPENPBS).states(["1.login"])
    with pytest.raises(NoAnswer, match="onnect"):
        Server(OPENPBS).delete("1.login")


def test_a_host_that_is_down_does_not_make_the_server_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = answer("qdel host down")
    monkeypatch.setattr(server, "run", lambda *_: Done(222, said.stdout, said.stderr))
    assert "could not connect to MOM" in str(Server(OPENPBS).delete("1.login"))


def test_hosts_are_asked_for_again_soon_after_a_silence() -> None:
    class Quiet(Words):
        calls = 0

        def hosts(self):  # type: ignore[no-untyped-def]
            self.calls += 1
            if self.calls == 1:
                raise NoAnswer("down")
            return ["n1"]

    now, quiet = 0.0, Quiet()
    hosts = Hosts(quiet, 600.0, clock=lambda: now)
    assert hosts.get() == []
    assert hosts.get() == []
    now = 31
    assert hosts.get() == ["n1"]
    now = 500
    hosts.get()
    assert quiet.calls == 2
    hosts.get(10)
    assert quiet.calls == 3


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(NoAnswer, match="no answer within 0 s"):
        run(["sleep", "60"], 0.1)
    assert run(["sh", "-c", "echo a; echo a >&2; exit 3"], 10) == Done(3, "a\n", "a\n")


class Order:
    """What becomes of one order, with a server that does what `plan` says."""

    def __init__(self, plan: list[object], found: list[list[str]]) -> None:
        self.events: list[tuple[str, object]] = []
        outer = self

        class Planned(Words):
            def submit(self, command: Sequence[str]) -> str:
                outer.events.append(("qsub", "-k" in command))
                step = plan.pop(0)
                if isinstance(step, Exception):
                    raise step
                return str(step)

            def find(self, name: str) -> list[str]:
                return found.pop(0)

            def hosts(self) -> list[object]:  # type: ignore[override]
                return []

        def note(event: str):  # type: ignore[no-untyped-def]
            return lambda *values: self.events.append((event, values[-1] if values else None))

        callbacks = submission.Callbacks(
            accepted=lambda order, job_id, host: self.events.append(("taken", job_id)),
            refused=note("refused"),
            submitting=lambda name: None,
            not_queued=lambda name: None,
            duplicates=note("spare"),
            server_answered=lambda: None,
            server_silent=note("silent"),
            stopping=lambda: self.stopping,
            lost_hosts=frozenset,
        )
        self.stopping = False
        pbs = Planned()
        self.submitter = submission.Submitter(pbs, Hosts(pbs), 10.0, callbacks)
        request = request_of("a", 1, {}, ExecutorSettings())
        self.order = submission.Order(
            request, "a-1", Path("/s"), Path("/l"), (None,), ("a-1",), (Path("/l"),)
        )

    def run(self) -> list[tuple[str, object]]:
        self.submitter._submit(self.order)
        return self.events


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "FIRST_PAUSE", 0.001)


@pytest.mark.usefixtures("quick")
def test_a_lost_answer_is_no_second_job() -> None:
    assert Order([NoAnswer("timed out")], [["7.s", "8.s"]]).run() == [
        *(("qsub", True), ("spare", ["8.s"]), ("taken", "7.s"))
    ]
    assert Order([NoAnswer("timed out"), "9.s"], [[]]).run()[-1] == ("taken", "9.s")


def test_letters_that_qsub_does_not_know_are_left_out() -> None:
    order = Order([Refused("qsub: illegal -k value"), "9.s", "10.s"], [])
    order.run()
    assert order.run() == [
        *(("qsub", True), ("qsub", False), ("taken", "9.s"), ("qsub", False), ("taken", "10.s"))
    ]


def test_a_refused_job_and_one_of_a_run_that_stops() -> None:
    (_, (event, text)) = Order([Refused("qsub: Unknown queue")], []).run()
    assert event == "refused"
    assert "PBS did not take a: qsub: Unknown queue. Asked: qsub -N a-1" in str(text)
    order = Order([], [])
    order.stopping = True
    ((event, text),) = order.run()
    assert event == "refused"
    assert submission.STOPPED in str(text)


def test_jobs_that_cannot_be_deleted_are_named_without_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without qdel nobody has waited for them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    order = tmp_path / "cancel.1.json"
    order.write_text('{"dialect": "openpbs", "ids": ["1.head"], "names": [], "force": false}')
    assert cancel.main([str(order)]) == 1
    assert capsys.readouterr().err.endswith(" given up; PBS may still have: 1.head\n")
