"""The verification as the last net: what a store has lost, changed or made up."""

import pytest
from support.driving import rows
from support.in_threads import LOG, MemoryEngine, job, run, ycsb

from storewise.driver.verify import run_verify
from storewise.driver.worker_job import ClientJob
from storewise.errors import EngineError
from storewise.layout import PACK
from storewise.metrics.schema import read_part
from storewise.workloads.contract import Checked
from storewise.workloads.ycsb.workload import YcsbWorkload

NUMBERS = ("expected", "counted", "checked", "lost", "wrong")


def verified(trial, place, check=lambda: None, **changes):
    """What the verification has recorded: its numbers, and the conditions of its part."""
    load = job(trial, place, "load")
    given = {"before": (load.result,), "cluster": load.cluster, **changes}
    its = ClientJob(trial=trial, shards=None, result=place / "verify.parquet", **given)
    run_verify(its, check, LOG)
    numbers = {row["metric"].removesuffix("_documents"): row["value"] for row in rows(its.result)}
    return numbers, read_part(its.result)[1]


def double(held):
    held[b"user1-again"] = held[min(held)]


#: What is done to the store, the NUMBERS that are recorded then, and words of the reason.
FAULTS = {
    "lost": (lambda held: held.pop(min(held)), (40, 39, 40, 1, 0), "39 counted, 1 lost and 0"),
    "doubled": (double, (40, 41, 40, 0, 0), "usertable: 40 documents expected, 41 counted"),
    "changed": (
        lambda held: held[min(held)].update(field0="short"),
        *((40, 40, 40, 0, 1), "0 lost and 1 wrong of 40 checked, first: record"),
    ),
    "exchanged": (  # the count is right, and hides what is missing
        lambda held: held.update({b"x": held.pop(min(held))}),
        *((40, 40, 40, 1, 0), "40 counted, 1 lost and 0 wrong of 40 checked, first: record user"),
    ),
    "emptied": (dict.clear, (40, 0, 40, 40, 0), "0 counted, 40 lost and 0 wrong of 40"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_difference_fails_a_durable_trial_and_is_recorded_at_a_level_that_may_lose(
    server, tmp_path, fault
):
    do, expected, words = FAULTS[fault]
    part = tmp_path / "verify.parquet"
    for level in ("durable", ""):
        trial = ycsb(consistency=level)
        server.documents.clear()
        run(trial, tmp_path, "load")
        numbers, conditions = verified(trial, tmp_path)
        assert tuple(numbers[name] for name in NUMBERS) == (40, 40, 40, 0, 0)
        assert (conditions["verification"], conditions["warnings"]) == ("required", [])
        part.unlink()
        do(server.documents)
        with pytest.raises(EngineError, match="Memory lost or changed documents") as error:
            verified(trial, tmp_path)
        assert words in str(error.value)
        assert not part.exists()
    relaxed, before = ycsb(consistency="relaxed"), {"warnings": ["before"]}
    numbers, conditions = verified(relaxed, tmp_path, conditions=before)
    assert tuple(numbers[name] for name in NUMBERS) == expected
    assert conditions["verification"] == "measured"
    first, second = conditions["warnings"]
    assert first == "before" and words in second
    (size,) = rows(part, metric="store_bytes")
    assert size["value"] == 100 * len(server.documents), "at the end of the trial"
    (row,) = rows(part, metric="lost_documents")
    assert (row["phase"], row["operation"], row["unit"]) == ("verify", "usertable", "1")


def test_all_kinds_are_recorded_and_each_difference_is_named(server, tmp_path, monkeypatch, caplog):
    found = [Checked("a", 5, 4, 3, 1, 0, "x is missing"), Checked("b", 6, 6, 6), Checked("c", 7, 9)]
    looks = []
    monkeypatch.setattr(YcsbWorkload, "verify", lambda self, look: looks.append(look) or found)
    trial = ycsb(verify=9)
    run(trial, tmp_path, "load")
    with pytest.raises(EngineError) as error:
        verified(trial, tmp_path)
    a = "a: 5 documents expected, 4 counted, 1 lost and 0 wrong of 3 checked, first: x is missing"
    c = "c: 7 documents expected, 9 counted, 0 lost and 0 wrong of 0 checked"
    assert str(error.value).endswith(f"had acknowledged: {a}; {c}")
    written = (tmp_path / "w",)
    relaxed = trial.model_copy(update={"consistency": "relaxed"})
    _, conditions = verified(relaxed, tmp_path, written=written)
    assert conditions["warnings"] == [a, c]
    part = tmp_path / "verify.parquet"
    for one in found:
        numbers = [rows(part, metric=f"{n}_documents", operation=one.name) for n in NUMBERS]
        assert [row["value"] for (row,) in numbers] == [getattr(one, name) for name in NUMBERS]
    look = looks[-1]
    assert (look.sample, look.seed, look.written) == (9, 5, written)
    assert look.load.recordcount == 40
    assert [note["tried"] for note in look.notes] == [40]
    assert look.kinds == trial.kinds() and look.engine.name == "memory"


@pytest.mark.parametrize("level", ["durable", "relaxed"])
def test_an_input_file_that_was_not_stored_fails_the_trial_unless_it_is_in_quarantine(
    server, tmp_path, level, monkeypatch, caplog
):
    """Whatever the level: nobody acknowledged it, so nothing was lost."""
    given, lost = [], ["in/b.gz", "in/c.gz"]
    left_out = lambda self, *where: given.append(where) or lost  # noqa: E731
    monkeypatch.setattr(YcsbWorkload, "left_out", left_out)
    trial = ycsb(consistency=level)
    run(trial, tmp_path, "load")
    written = (tmp_path / "written.0.parquet",)
    text = "2 input files were not stored, the first: in/b.gz"
    with pytest.raises(EngineError, match=rf"^{text}$"):
        verified(trial, tmp_path, written=written)
    assert not (tmp_path / "verify.parquet").exists()
    going_on = trial.model_copy(update={"on_bad_input": "quarantine"})
    assert verified(going_on, tmp_path)[1]["left_out"] == lost
    assert text in caplog.text
    assert given == [(None, written), (None, ())]


def test_what_remains_of_a_trial_after_it(server, tmp_path, monkeypatch, caplog):
    """Stores are removed unless they are kept, clients closed, and the parts packed."""
    removed = []

    def remove(self, cluster):
        removed.append(cluster.engine)
        if len(removed) == 2:
            raise EngineError("no permission")

    monkeypatch.setattr(MemoryEngine, "remove", remove)
    trial = ycsb()
    place = tmp_path / trial.id
    place.mkdir()
    load = run(trial, place, "load")
    closed = server.calls["close"]
    verified(trial.model_copy(update={"keep_data": True}), place)
    assert removed == []
    assert server.calls["close"] == closed + 1
    assert (place / PACK).exists()
    _, conditions = verified(trial, place, versions={"server": "7"})
    assert conditions["versions"]["server"] == "7" and conditions["versions"]["storewise"]
    assert conditions["left_out"] == []
    verified(trial, place)
    assert removed == ["memory", "memory"]
    assert "data of this trial may be left until its next run: no permission" in caplog.text
    assert load.result.exists()


def test_stores_in_the_clients_are_looked_at_unless_they_keep_nothing(server, tmp_path):
    for engine, level, expected in (
        ("sqlite", "required", (40, 40, 40, 0, 0)),
        ("null", "skipped: the engine keeps nothing", ()),
    ):
        trial, store = ycsb(engine=engine, processes=2), tmp_path / engine
        run(trial, tmp_path, "load", store=store, cluster=None)
        numbers, conditions = verified(trial, tmp_path, stores=(store,), cluster=None)
        assert tuple(numbers[name] for name in NUMBERS if name in numbers) == expected
        assert conditions["verification"] == level


def test_the_end_of_the_trial_ends_it(server, tmp_path):
    run(ycsb(), tmp_path, "load")
    with pytest.raises(ZeroDivisionError):  # of the check
        verified(ycsb(), tmp_path, lambda: 1 / 0)
    assert not (tmp_path / "verify.parquet").exists()
