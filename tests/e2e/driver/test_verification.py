"""The verification as the last net, from a damaged store to the verdict: a trial at a durable level
fails; at a level that may lose it is recorded, and such a store is not recommended."""

import sqlite3
from dataclasses import replace

import pytest
from support import driving
from support.driving import make_inputs, trial, verify
from support.results.made import GROUP

from storewise.analysis.measure.reduction import Reduction
from storewise.analysis.measure.verification import verification
from storewise.analysis.verdict.decision import verdict
from storewise.errors import EngineError
from storewise.metrics.schema import read_part

pytestmark = GROUP
DURABLE = trial("sqlite", ["write"], verify=5000)
RELAXED = DURABLE.model_copy(update={"consistency": "relaxed"})


@pytest.fixture
def stored(tmp_path):
    """A load of three files, which is whole."""
    make_inputs(tmp_path, 1, files=3)
    driving.run_here(DURABLE, tmp_path, "write")
    verify(DURABLE, tmp_path)
    (tmp_path / "verify.parquet").unlink()
    return tmp_path


def execute(stored, *statements):
    """Change the store behind its back; rows that the last statement changed."""
    (path,) = [p for p in (stored / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    database = sqlite3.connect(path)
    with database:
        changed = [database.execute(statement).rowcount for statement in statements][-1]
    database.close()
    return changed


def lose_file(stored):
    """The documents of one file: what begins with the digest of the first task's."""
    first = "(SELECT substr(_id, 1, 7) FROM tasks ORDER BY _id LIMIT 1)"
    tables = ("align", "gs", "rna", "tasks")  # the one that is asked last
    assert execute(stored, *(f"DELETE FROM {t} WHERE substr(_id, 1, 7) = {first}" for t in tables))


def copy(stored, table, digest):
    """A copy of a document, its id (7 bytes of the file, 1 of the kind, 4 of the ordinal) another
    ordinal of the same file or of another one."""
    execute(
        stored,
        f"CREATE TABLE taken AS SELECT * FROM {table} ORDER BY _id LIMIT 1",
        f"UPDATE taken SET _id = CAST({digest} || substr(_id, 8, 1) || x'00ffffff' AS BLOB)",
        f"INSERT INTO {table} SELECT * FROM taken",
        "DROP TABLE taken",
    )


def change(stored):
    assert execute(stored, "UPDATE align SET f = 'x'") > 0


FAULTS = {
    "a file lost": (lose_file, r"tasks: 12 documents expected, 8 counted, 4 lost"),
    "a document doubled": (lambda p: copy(p, "rna", "substr(_id, 1, 7)"), r"^.*: rna: \d+ doc"),
    "one too many": (lambda p: copy(p, "gs", "x'01020304050607'"), r"^.*: gs: \d+ documents"),
    "changed": (change, r"align: .* wrong of .*document [0-9a-f]{24} has 'x'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_damaged_store_is_worth(stored, made, fault):
    damage, words = FAULTS[fault]
    damage(stored)
    with pytest.raises(EngineError, match=words):
        verify(DURABLE, stored)
    assert not (stored / "verify.parquet").exists()

    # The results of a study in which this store would be the best, had it lost nothing.
    tables = made.tables(engines=["sqlite", "duckdb"], workers=[1], repeats=2)
    best = verdict(tables).decision.table.index[0]
    trials = tables.results.trials
    one = trials.loc[trials["engine"] == best.lower(), "trial"].iloc[0]
    verify(RELAXED.model_copy(update={"id": one}), stored)
    assert read_part(stored / "verify.parquet")[1]["verification"] == "measured"
    samples = Reduction(read_part(stored / "verify.parquet")[0])
    found = verdict(replace(tables, verification=verification(samples)))
    assert dict(found.set_aside) == {best: "its store did not hold all that was written to it"}
    assert best not in found.decision.table.index
