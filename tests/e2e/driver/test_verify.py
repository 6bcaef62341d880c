"""The verification of a store that was changed behind its back."""

import sqlite3

import pytest
from support import driving
from support.driving import make_inputs, total, trial, verify

from storewise.errors import EngineError
from storewise.metrics.schema import read_part


@pytest.fixture
def place(tmp_path):
    make_inputs(tmp_path, 1)
    return tmp_path


def test_verification_finds_what_is_lost_or_changed(place):
    measured = trial("sqlite", verify=5000)
    driving.run_here(measured, place, "write")
    verify(measured, place)
    (path,) = [p for p in (place / "store.0" / "p0").iterdir() if p.suffix != ".json"]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE align SET f = 'x'")
    database.close()
    with pytest.raises(EngineError, match=r"align: .* wrong of .*document [0-9a-f]{24} has 'x'"):
        verify(measured, place)
    with sqlite3.connect(path) as database:
        lost = database.execute("DELETE FROM rna").rowcount
    database.close()
    with pytest.raises(EngineError, match=rf"rna: {lost} documents expected, 0 counted"):
        verify(measured, place)
    relaxed = measured.model_copy(update={"consistency": "relaxed"})
    verify(relaxed, place)
    result = place / "verify.parquet"
    assert total(result, "lost_documents", operation="rna") == lost
    assert total(result, "wrong_documents", operation="align") > 0
    assert read_part(result)[1]["verification"] == "measured"
