"""Loading, storage, host load, verification, verdict and files of whole (made-up) studies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pandas as pd
import pytest
from support.paths import ROOT
from support.results import synthetic
from support.results.made import GROUP, ONE, Made

from storewise.analysis.measure import verification
from storewise.analysis.model.results import Results
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import analyse, summary_table, write_tables
from storewise.analysis.verdict.decision import verdict
from storewise.errors import ResultError
from storewise.figures.captions import FIGURES
from storewise.metrics.schema import Sample, write_part

pytestmark = GROUP

FACTORS: dict[str, Any] = {
    "engine": "sqlite",
    "workers": 1,
    "processes": 1,
    "threads": 1,
    "consistency": "durable",
    "index": "none",
}


def tables_of(study: Path) -> Tables:
    return measured_tables(load_results(study))


def codes(found: Tables | Results) -> set[str]:
    return {w.code for w in found.warnings}


@pytest.fixture(scope="module")
def whole(made: Made) -> Tables:
    return made.tables()


@pytest.fixture(scope="module")
def analysed(whole: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of its analysis."""
    out = tmp_path_factory.mktemp("analysed") / "out"
    write_tables(whole, out)
    return out


def test_factors_are_typed_columns_and_null_is_a_name(whole: Tables) -> None:
    results = whole.results
    assert results.factors == ("engine", "workers", "processes", "threads", "consistency", "index")
    assert results.trials["workers"].dtype == "int64"
    assert set(results.trials["engine"]) == set(synthetic.EMBEDDED)
    assert len(results.trials) == 16
    assert results.inputs is not None
    assert results.inputs.files == synthetic.FILES


def test_whole_study_is_analysed_into_files(analysed: Path) -> None:
    rates = pd.read_csv(analysed / "summary.csv", keep_default_na=False, na_values=[""])
    assert {"sqlite", "null"} <= set(rates["engine"])
    written = rates[
        (rates["engine"] == "sqlite")
        & (rates["workers"] == 1)
        & (rates["measure"] == "documents_per_s")
        & (rates["phase"] == "write")
    ]
    assert written["mean"].item() == pytest.approx(21_000, rel=0.1)
    assert written["n"].item() == 2
    data = json.loads((analysed / "verdict.json").read_text())
    assert data["finding"].startswith("For these inputs, on this machine: ")
    names = {p.stem for p in analysed.iterdir()}
    assert {"series", "latency", "scaling", "storage", "host", "warnings"} <= names


def test_results_are_the_same_every_time(made: Made, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    analyse(made.study(**ONE), one)
    write_tables(made.tables(**ONE), other)
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


def test_verdict_of_the_whole_study(whole: Tables) -> None:
    result = verdict(whole)
    by_name = {c.name: c for c in result.criteria}
    assert by_name["read"].leaders == ("SQLite",)
    assert by_name["disk"].leaders == ("Parquet files",)
    assert all("no store" not in s.label for c in result.criteria for s in c.standings)
    assert result.recommendation.choice == "SQLite"
    assert "take SQLite; with equal weights of " in result.finding
    assert "alone first in reading (" in result.finding
    assert "Parquet files in space on disk (310 against 48.0 B/document)" in result.finding
    assert result.text[0] == result.recommendation.sentences[1]
    assert result.text[0].startswith("What would change it: ")


def test_summary_has_intervals_and_units(whole: Tables) -> None:
    table = summary_table(whole)
    assert set(table["unit"]) >= {"documents/s", "B/document", "s"}
    rates = table[table["measure"] == "documents_per_s"]
    assert (rates["low"] <= rates["mean"]).all()
    assert (rates["mean"] <= rates["high"]).all()
    assert not table.duplicated(["engine", "workers", "phase", "step", "measure"], keep=False).any()


def test_nothing_to_analyse_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no such directory"):
        analyse(tmp_path / "missing", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError, match="no trial has results yet"):
        analyse(tmp_path / "empty", tmp_path)


def test_only_the_ceiling_is_no_choice(tmp_path: Path) -> None:
    synthetic.make_study(tmp_path / "s", engines=["null"], workers=[1], repeats=1)
    synthetic.make_failed(tmp_path / "s", FACTORS, 1, "no room")
    analyse(tmp_path / "s", tmp_path / "out")
    assert "no store can be judged" in (tmp_path / "out" / "verdict.json").read_text()
    warnings = pd.read_csv(tmp_path / "out" / "warnings.csv")
    assert "no room" in warnings.loc[warnings["code"] == "failed_trial", "message"].item()


def test_failed_trials_leave_the_figures_and_the_recommendation(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite", "parquet"], workers=[1])
    failing = {**FACTORS, "engine": "parquet", "workers": 2}
    trial = synthetic.make_trial(study, failing, 1)  # what it left behind
    assert synthetic.make_failed(study, failing, 1, "out of memory") == trial
    tables = tables_of(study)
    assert trial not in set(tables.trials["trial"])
    assert "failed_trial" in codes(tables)
    result = verdict(tables)
    assert dict(result.set_aside) == {"Parquet files": "1 of its trials failed (out of memory)"}
    assert all(s.label != "Parquet files" for c in result.criteria for s in c.standings)


def test_wrong_documents_are_never_recommended(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite", "parquet"], workers=[1])
    trial = next((study / "trials").glob("sqlite*-r1-*")).name
    rows = [
        Sample("verify", metric, value, "1", operation="rna")
        for metric, value in (
            ("expected_documents", 100),
            ("counted_documents", 97),
            ("checked_documents", 20),
            ("wrong_documents", 1),
        )
    ]
    write_part(
        study / "trials" / trial / "verify.parquet",
        rows,
        trial=trial,
        repeat=1,
        host="h",
        factors=FACTORS,
        conditions=synthetic.conditions("sqlite", FACTORS, "verify", 0),
    )
    tables = tables_of(study)
    mine = tables.verification[tables.verification["trial"] == trial].iloc[0]
    assert (mine["lost"], mine["wrong"]) == (3, 1)
    assert verification.wrong_trials(tables.verification) == {trial}
    assert "wrong_documents" in codes(tables)
    assert [label for label, _ in verdict(tables).set_aside] == ["SQLite"]


def test_missing_worker_leaves_its_phase_out(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite"], workers=[2], repeats=1)
    (trial,) = (study / "trials").iterdir()
    (trial / "read.1.parquet").unlink()
    tables = tables_of(study)
    assert "missing_worker" in codes(tables)
    assert set(tables.throughput["phase"]) == {"write"}
    assert set(tables.latency["phase"]) == {"write"}


def test_broken_files_are_warned_of_and_left_out(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite", "duckdb"], workers=[1], repeats=1)
    sqlite = next((study / "trials").glob("sqlite*"))
    duckdb = next((study / "trials").glob("duckdb*"))
    (sqlite / "read.0.parquet").write_bytes(b"no parquet")
    (duckdb / "read.0.hlog").write_text("Tag=get.service_time,0,1,2,garbage\n")
    (study / "study.json").write_text("[")
    (study / "inputs" / "manifest.parquet").unlink()
    (study / "inputs" / "quarantine.tsv").write_text("a\tb\n1\t2\n")
    tables = tables_of(study)
    assert {
        "unreadable_part",
        "unreadable_log",
        "no_study",
        "no_manifest",
        "quarantine_unreadable",
    } <= codes(tables)
    assert verdict(tables).finding


def test_lists_of_written_files_and_half_written_parts_are_no_results(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite"], workers=[1], repeats=1)
    (trial,) = (study / "trials").iterdir()
    (trial / "written.0.parquet").write_bytes(b"not a part")
    (trial / ".read.0.parquet.1.tmp").write_bytes(b"half")
    (trial / "store.0").mkdir()
    assert "unreadable_part" not in codes(load_results(study))


def test_older_config_and_trials_out_of_the_plan_are_warned_of(tmp_path: Path) -> None:
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
    assert len(older) == 2
    assert "phases" in older[0].message


def test_mixed_versions_and_hosts_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "s"
    synthetic.make_trial(study, FACTORS, 1)
    plain = synthetic.conditions

    def newer(*args: Any) -> dict[str, Any]:
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


def test_quarantined_files_of_manifest_and_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "s"
    plain = synthetic.conditions
    refused = {"path": "b.m10", "reason": "changed since", "line": 5, "offset": 99}
    monkeypatch.setattr(
        synthetic, "conditions", lambda *args: {**plain(*args), "quarantined": [refused]}
    )
    synthetic.make_trial(study, FACTORS, 1)
    synthetic.make_inputs(study, [("a.m10", "3", "40", "truncated")])
    results = load_results(study)
    assert [(q.path, q.line, q.offset) for q in results.quarantined] == [
        ("a.m10", "3", "40"),
        ("b.m10", "5", "99"),
    ]


def test_a_store_stands_at_the_level_that_loses_nothing(tmp_path: Path) -> None:
    study = tmp_path / "s"
    for level in ("durable", "relaxed"):
        for repeat in (1, 2):
            synthetic.make_trial(study, {**FACTORS, "consistency": level}, repeat)
    standings = [s for c in verdict(tables_of(study)).criteria for s in c.standings]
    assert {s.label for s in standings} == {"SQLite"}
    assert all("durable" in s.configuration for s in standings)


def test_every_warning_code_is_documented() -> None:
    root = ROOT
    text = (root / "docs" / "analysis.md").read_text(encoding="utf-8")
    source = "".join(
        p.read_text(encoding="utf-8") for p in (root / "storewise" / "analysis").rglob("*.py")
    )
    used = set(re.findall(r'StudyWarning\(\s*"([a-z_]+)"', source)) | {"worker", "session"}
    assert len(used) > 15
    assert {code for code in used if f"`{code}`" not in text} == set()


def test_every_figure_has_a_caption_for_snakemake() -> None:
    text = (ROOT / "report" / "figures.rst").read_text(encoding="utf-8")
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text)
    for spec in FIGURES:
        job = SimpleNamespace(wildcards=SimpleNamespace(name=spec.name))
        assert len(template.render(snakemake=job).strip()) > 40
