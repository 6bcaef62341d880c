"""What a trial is called on the terminal."""

import re

import pandas as pd
from support.paths import DATA

from storewise.analysis.common.text import number
from storewise.layout import STUDY as STUDY_FILE
from storewise.run.trial_line import failed_line, finished_line, phase_name, trial_name
from storewise.study.load import load_study
from storewise.study.study import Study

STUDY = """\
workload: ycsb
engines: [sqlite, postgres]
factors: {workers: [1, 2], nodes: [1], index: [none]}
repeats: 2
phases: [load]
"""


def test_a_trial_is_called_by_what_varies(tmp_path):
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


def test_a_measured_trial_has_the_rate_of_each_phase(tmp_path):
    """Documents/s of the load and operations/s of the others, as the tables have them; the files
    load nothing."""
    stored = DATA / "stored" / "results"
    study = Study.model_validate_json((stored / STUDY_FILE).read_text())
    lines = {
        trial.id: finished_line(study, trial, stored / "trials" / trial.id)
        for trial in study.trials()
    }
    rates = pd.read_csv(DATA / "stored" / "tables" / "measures.csv")
    rates = rates[rates.operation == "all"]
    for name, line in lines.items():
        title, *parts = re.split("   +", line.removeprefix("ok   "))
        assert title.startswith(("SQLite, repeat ", "Plain files, repeat "))
        assert line.startswith(f"ok   {title:<34}   "), "rates stand below each other"
        kinds = {"write": "documents_per_s", "read": "operations_per_s"}
        kinds["query"] = kinds["read"]
        of_trial = rates[rates.trial == name]
        assert parts == [
            f"{phase_name(phase)} {number(of.value[of.measure == kinds[phase]].max())}/s"
            for phase, of in ((phase, of_trial[of_trial.phase == phase]) for phase in kinds)
            if not (name.startswith("files") and phase == "write")
        ]
    trial = study.trials()[0]
    assert phase_name("mine") == "mine"
    assert finished_line(study, trial, tmp_path / "gone").startswith("ok   ")
    assert "/s" not in finished_line(study, trial, tmp_path / "gone")
