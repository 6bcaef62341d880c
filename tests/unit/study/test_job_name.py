"""Names of jobs in a scheduler's queue."""

from __future__ import annotations

import pytest

from storewise.study.trial import SHOWN, Phase, Trial, job_name


@pytest.mark.parametrize(
    ("job", "identifier", "shown"),
    [
        ("data0", "postgres-w2-r1-0d8fc281", "data0.pos-w2-r1"),
        ("load.1", "sqlite-w2-r1-0d8fc281", "load.1.sq-w2-r1"),
        ("form", "mongodb-r3-0d8fc281", "form.mongodb-r3"),
        ("verify", "cassandra-w512-r10-0d8fc281", "verify.ca-w512-"),
    ],
)
def test_the_first_characters_tell_job_and_trial(job: str, identifier: str, shown: str) -> None:
    trial = Trial(
        study="s",
        id=identifier,
        engine=identifier.partition("-")[0],
        workload="alignments",
        repeat=1,
        seed=1,
        factors={},
        phases=[Phase(name="write")],
    )
    name = job_name(job, trial)
    assert name[:SHOWN].rstrip(".") == shown
    assert name.endswith("0d8fc281"), "the whole name is the trial's alone"
