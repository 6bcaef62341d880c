"""The verification as the last net: what a store has lost, changed or made up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.driving import rows
from support.in_threads import LOG, MemoryEngine, job, run, ycsb

from storewise.driver.verify import run_verify
from storewise.driver.worker_job import ClientJob
from storewise.errors import Aborted, EngineError
from storewise.layout import PACK
from storewise.metrics.schema import read_part
from storewise.workloads.contract import Checked
from storewise.workloads.ycsb.workload import YcsbWorkload

NUMBERS = ("expected", "counted", "checked", "lost", "wrong")


def verified(trial, place, check=lambda: None, **changes):
    """What the verification has recorded: its numbers, and the conditions of its part."""
    load = job(trial, place, "load")
    its = ClientJob(
        trial=trial,
        shards=None,
        result=place / "verify.parquet",
        **{"before": (load.result,), "cluster": load.cluster, **changes},
    )
    run_verify(its, check, LOG)
    numbers = {row["metric"].removesuffix("_documents"): row["value"] for row in rows(its.result)}
    return numbers, read_part(its.result)[1]


@dataclass(frozen=True)
class Fault:
    name: str
    do: Callable[[dict[bytes, Any]], object]
    numbers: tuple[int, ...]
    """Of NUMBERS."""
    words: str


def double(held):
    held[b"user1-again"] = held[min(held)]


def cut(held):
    held[min(held)]["field0"] = "short"


FAULTS = [
    Fault("lost", lambda held: held.pop(min(held)), (40, 39, 40, 1, 0), "39 counted, 1 lost and 0"),
    Fault("doubled", double, (40, 41, 40, 0, 0), "usertable: 40 documents expected, 41 counted"),
    Fault("changed", cut, (40, 40, 40, 0, 1), "0 lost and 1 wrong of 40 checked, first: record"),
    # The count is right, and hides what is missing.
    Fault(
        "exchanged",
        lambda held: held.update({b"x": held.pop(min(held))}),
        (40, 40, 40, 1, 0),
        "40 counted, 1 lost and 0 wrong of 40 checked, first: record user",
    ),
    Fault("emptied", dict.clear, (40, 0, 40, 40, 0), "0 counted, 40 lost and 0 wrong of 40"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_difference_fails_a_durable_trial_and_is_recorded_at_a_level_that_may_lose(
    server, tmp_path, fault
):
    for level in ("durable", ""):
        trial = ycsb(consistency=level)
        server.documents.clear()
        run(trial, tmp_path, "load")
        numbers, conditions = verified(trial, tmp_path)
        assert numbers == dict(zip(NUMBERS, (40, 40, 40, 0, 0), strict=True))
        assert (conditions["verification"], conditions["warnings"]) == ("required", [])
        (tmp_path / "verify.parquet").unlink()
        fault.do(server.documents)
        with pytest.raises(EngineError) as error:
            verified(trial, tmp_path)
        assert fault.words in str(error.value)
        assert str(error.value).startswith("Memory acknowledged documents and does not have them")
        assert not (tmp_path / "verify.parquet").exists()
    numbers, conditions = verified(
        ycsb(consistency="relaxed"), tmp_path, conditions={"warnings": ["before"]}
    )
    assert tuple(numbers[name] for name in NUMBERS) == fault.numbers
    assert conditions["verification"] == "measured"
    assert conditions["warnings"][0] == "before"
    assert fault.words in conditions["warnings"][1]
    (row,) = rows(tmp_path / "verify.parquet", metric="lost_documents")
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
    c = "c: 7 documents expected, 9 counted"
    assert str(error.value).endswith(f"as they were: {a}; {c}")
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
    given = []

    def left_out(self, *where):
        given.append(where)
        return ["in/b.gz", "in/c.gz"]

    monkeypatch.setattr(YcsbWorkload, "left_out", left_out)
    trial = ycsb(consistency=level)
    run(trial, tmp_path, "load")
    written = (tmp_path / "written.0.parquet",)
    text = "2 input files were not stored, the first: in/b.gz"
    with pytest.raises(EngineError, match=rf"^{text}$"):
        verified(trial, tmp_path, written=written)
    assert not (tmp_path / "verify.parquet").exists()
    going_on = trial.model_copy(update={"on_bad_input": "quarantine"})
    assert verified(going_on, tmp_path)[1]["left_out"] == ["in/b.gz", "in/c.gz"]
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


def test_an_engine_that_keeps_nothing_is_not_looked_at(server, tmp_path):
    trial = ycsb(engine="null")
    run(trial, tmp_path, "load", store=tmp_path / "s", cluster=None)
    numbers, conditions = verified(trial, tmp_path, cluster=None)
    assert numbers == {}
    assert conditions["verification"] == "skipped: the engine keeps nothing"


def test_stores_in_the_clients_are_looked_at_where_the_load_left_them(server, tmp_path):
    trial = ycsb(engine="sqlite", processes=2)
    store = tmp_path / "store"
    run(trial, tmp_path, "load", store=store, cluster=None)
    numbers, _ = verified(trial, tmp_path, stores=(store,), cluster=None)
    assert numbers == dict(zip(NUMBERS, (40, 40, 40, 0, 0), strict=True))


def test_the_end_of_the_trial_ends_it(server, tmp_path):
    def ended():
        raise Aborted("data0 has died")

    trial = ycsb()
    run(trial, tmp_path, "load")
    with pytest.raises(Aborted):
        verified(trial, tmp_path, ended)
    assert not (tmp_path / "verify.parquet").exists()
