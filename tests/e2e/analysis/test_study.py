"""Loading, storage, host load, verification, verdict and files of whole (made-up) studies."""

import json
import re

import pytest
from support.paths import ROOT
from support.results import synthetic
from support.results.made import GROUP, ONE

from storewise.analysis.pipeline.build import build_tables, measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import analyse, write_tables
from storewise.analysis.verdict.decision import verdict
from storewise.errors import ResultError
from storewise.figures import make
from storewise.figures.texts import texts
from storewise.figures.verdict_chart import verdict_chart

pytestmark = GROUP

FACTORS = {
    "engine": "sqlite",
    "workers": 1,
    "processes": 1,
    "threads": 1,
    "consistency": "durable",
    "index": "none",
}


def tables_of(study):
    return measured_tables(load_results(study))


def test_results_are_the_same_every_time(made, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    analyse(made.study(**ONE), one)
    write_tables(made.tables(**ONE), other)
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}
    assert all(path.read_bytes() == (other / path.name).read_bytes() for path in one.iterdir())


def test_nothing_to_analyse_is_a_clear_error(tmp_path):
    with pytest.raises(ResultError, match="no such directory"):
        analyse(tmp_path / "missing", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError, match="no trial is complete yet"):
        analyse(tmp_path / "empty", tmp_path)


def test_missing_worker_leaves_its_phase_out(tmp_path):
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite"], workers=[2], repeats=1)
    (trial,) = (study / "trials").iterdir()
    (trial / "read.1.parquet").unlink()
    tables = tables_of(study)
    assert "missing_worker" in {w.code for w in tables.warnings}
    assert set(tables.throughput["phase"]) == {"write"}
    assert set(tables.latency["phase"]) == {"write"}


def test_broken_files_are_warned_of_and_left_out(tmp_path):
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite", "duckdb"], workers=[1], repeats=1)
    sqlite = next((study / "trials").glob("sqlite*"))
    duckdb = next((study / "trials").glob("duckdb*"))
    (sqlite / "read.0.parquet").write_bytes(b"no parquet")
    (duckdb / "read.0.hlog").write_text("Tag=get.service_time,0,1,2,garbage\n")
    (study / "study.json").write_text("[")
    # Lists of written files and half-written parts are no results.
    (duckdb / "written.0.parquet").write_bytes(b"not a part")
    (duckdb / ".read.0.parquet.1.tmp").write_bytes(b"half")
    (duckdb / "store.0").mkdir()
    (study / "inputs" / "manifest.parquet").unlink()
    (study / "inputs" / "quarantine.tsv").write_text("a\tb\n1\t2\n")
    tables = tables_of(study)
    found = [w.code for w in tables.warnings]
    assert {"unreadable_log", "no_study"} <= set(found)
    assert (found.count("unreadable_part"), found.count("no_manifest")) == (1, 2)
    assert verdict(tables).finding


def test_older_config_and_trials_out_of_the_plan_are_warned_of(tmp_path):
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite"], workers=[1, 2])
    resolved = json.loads((study / "study.json").read_text())
    resolved["factors"]["workers"] = [1, 3]
    (study / "study.json").write_text(json.dumps(resolved))
    result = {w.code: w for w in load_results(study).warnings}
    assert "sqlite-w3-r1-" in result["missing_trials"].message
    assert "-w2-" in result["other_config"].trial
    assert "older_config" not in result
    resolved["phases"][0]["params"]["batch_size"] = 50
    (study / "study.json").write_text(json.dumps(resolved))
    older = [w for w in load_results(study).warnings if w.code == "older_config"]
    assert len(older) == 2 and "phases" in older[0].message


def test_trials_that_were_not_finished_count_nowhere(tmp_path):
    """One that was interrupted after its load, and is in the study; one that no longer is."""
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite", "duckdb"], workers=[1], repeats=2)
    resolved = json.loads((study / "study.json").read_text())
    (study / "study.json").write_text(json.dumps({**resolved, "repeats": 1}))
    interrupted = [*study.glob("trials/sqlite-*-r1-*"), *study.glob("trials/duckdb-*-r2-*")]
    for trial in interrupted:
        for path in (*trial.glob("verify*"), *trial.glob("read.*")):
            path.unlink()
    tables = build_tables(load_results(study))
    names = {trial.name for trial in interrupted}
    (missing,) = (w for w in tables.warnings if w.code == "missing_trials")
    assert interrupted[0].name in missing.message
    for name, table in tables.frames().items():
        of_trials = "trial" in table and name != "warnings"
        assert not of_trials or not names & set(table["trial"].astype(str)), name
    facts = verdict_chart(tables, verdict(tables)).facts
    assert facts[-1].startswith("2 of 3 trials")
    assert not [w for w in tables.warnings if w.code == "wrong_documents"]


def test_mixed_versions_and_hosts_are_warned_of(tmp_path, monkeypatch):
    study = tmp_path / "s"
    synthetic.make_trial(study, FACTORS, 1)
    plain = synthetic.conditions

    def newer(*args):
        result = plain(*args)
        result["versions"]["storewise"] = "0.2.0"
        result["host"] = {**result["host"], "name": "node-8", "processor": "another"}
        result["warnings"] = ["the stores of write lie on a network file system (nfs4)"]
        return result

    monkeypatch.setattr(synthetic, "conditions", newer)
    synthetic.make_trial(study, FACTORS, 2)
    messages = {w.code: w.message for w in load_results(study).warnings}
    assert "0.1.0, 0.2.0" in messages["mixed_versions"]
    assert "another" in messages["mixed_hosts"]
    assert "network file system" in messages["worker"]


def test_quarantined_files_of_manifest_and_workers(tmp_path, monkeypatch):
    study = tmp_path / "s"
    plain = synthetic.conditions
    refused = {"path": "b.m10", "reason": "changed since", "line": 5, "offset": 99}
    monkeypatch.setattr(
        synthetic, "conditions", lambda *args: {**plain(*args), "quarantined": [refused]}
    )
    synthetic.make_trial(study, FACTORS, 1)
    synthetic.make_inputs(study, [("a.m10", "3", "40", "truncated")])
    found = [(q.path, q.line, q.offset) for q in load_results(study).quarantined]
    assert found == [("a.m10", "3", "40"), ("b.m10", "5", "99")]


def test_a_store_stands_at_the_level_that_loses_nothing(tmp_path):
    study = tmp_path / "s"
    for level in ("durable", "relaxed"):
        for repeat in (1, 2):
            synthetic.make_trial(study, {**FACTORS, "consistency": level}, repeat)
    standings = [s for c in verdict(tables_of(study)).criteria for s in c.standings]
    assert {s.label for s in standings} == {"SQLite"}
    assert all("durable" in s.where for s in standings)


def test_references_that_are_lost_are_a_warning(tmp_path, monkeypatch):
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    data = json.loads((tmp_path / "s" / "study.json").read_text())
    (tmp_path / "s" / "study.json").write_text(json.dumps({**data, "references": ["niec2014"]}))
    results = load_results(tmp_path / "s")
    (warning,) = [w for w in results.warnings if w.code == "no_reference"]
    assert "references.json" in warning.message and results.references == []
    published = {"published": make.FIGURES["published"]}
    monkeypatch.setattr(make, "FIGURES", published)
    (made,) = make.make_figures(build_tables(results), tmp_path / "figures")
    assert not made.picture and not made.error


def test_every_warning_code_is_documented():
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    source = "".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "storewise" / "analysis").rglob("*.py")
    )
    used = set(re.findall(r'StudyWarning\(\s*"([a-z_]+)"', source)) | {"worker", "session"}
    assert len(used) > 15
    assert {code for code in used if f"`{code}`" not in text} == set()


def test_every_figure_has_a_caption():
    assert set(texts()) == set(make.FIGURES)
    assert all(len(told["caption"]) > 40 for told in texts().values())
