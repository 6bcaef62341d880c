"""Trials are measured round by round, so that a run that is stopped has whole rounds."""

import pytest
from support.waiting import wait_until
from support.workspace import Workspace, interrupt_group

from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.verdict.decision import verdict
from storewise.study.load import load_study

#: Trials with other workers have another list of shards: none may start before all lists are there.
STUDY = """\
inputs: {paths: data}
engines: [sqlite, duckdb]
factors: {workers: [1, 2]}
exclude: [{engine: sqlite, workers: 1}, {engine: duckdb, workers: 2}]
repeats: 3
phases:
  - write
  - read: {operations: 10}
verify: 5
"""


@pytest.mark.long("six trials, one after another", limit=600)
def test_a_stopped_run_has_whole_rounds_and_goes_on_in_order(tmp_path):
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY)
    trials = load_study(tmp_path / "s.yaml").trials()
    order = [trial.id for trial in trials]

    def measured():
        paths = place.results.glob("trials/*/verify.parquet")
        return [p.parent.name for p in sorted(paths, key=lambda p: p.stat().st_mtime_ns)]

    run = place.start()

    def in_the_third_round():
        assert run.poll() is None, place.output()
        return (place.results / "trials" / order[5]).exists()

    wait_until(in_the_third_round, 300, "a trial of the third round")
    interrupt_group(run)
    place.gone(60)
    kept = measured()
    assert kept == order[: len(kept)]
    assert [trial.repeat for trial in trials[: len(kept)]] == [1, 1, 2, 2, 3]
    judged = verdict(build_tables(load_results(place.results)))
    assert judged.text[0].startswith("Stores are judged by the 2 of 3 rounds that are whole;")
    assert set(judged.decision.table["n"]) == {2}
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert measured() == order
