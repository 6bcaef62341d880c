"""What a trial is called on the terminal."""

from __future__ import annotations

from pathlib import Path

from storewise.run.trial_line import failed_line, trial_name
from storewise.study.load import load_study

STUDY = """\
workload: ycsb
engines: [sqlite, postgres]
factors: {workers: [1, 2], nodes: [1], index: [none]}
repeats: 2
phases: [load]
"""


def test_a_trial_is_called_by_what_varies(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    study = load_study(str(path))
    names = {trial_name(study, trial) for trial in study.trials()}
    assert names == {
        f"{engine}, {workers}, repeat {repeat}"
        for engine in ("SQLite", "PostgreSQL")
        for workers in ("1 worker", "2 workers")
        for repeat in (1, 2)
    }
    path.write_text("workload: ycsb\nengines: [sqlite]\nphases: [load]\n")
    study = load_study(str(path))
    (trial,) = study.trials()
    assert failed_line(study, trial, "load.0: full") == "FAIL SQLite: load.0: full"
