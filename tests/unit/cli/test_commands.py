"""What the commands say of themselves, and what `storewise init` refuses."""

import contextlib
import zipfile
from pathlib import Path

import pytest
from support.commands import storewise
from support.paths import DATA, SMALL

from storewise.cli.console import results_of
from storewise.cli.main import app
from storewise.publish.bundle import write_bundle
from storewise.study.load import load_study

EMBEDDED = ["files", "sqlite", "duckdb", "parquet"]


def test_every_command_shows_an_example():
    names = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert {"inspect", "convert", "init", "run", "report", "cost"} <= set(names)
    for name in names:
        assert "Example:" in storewise(name, "--help").stdout, name


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Some outputs, one of them cut off."""
    directory = tmp_path_factory.mktemp("outputs")
    for path in SMALL[:3]:
        (directory / path.name).symlink_to(path)
    (directory / "cut.m10").write_bytes((DATA / "ssearch36.m10").read_bytes()[:9000])
    return directory


def test_init_asks_the_question_of_the_readme(tmp_path, outputs, monkeypatch):
    # It starts no process here: no probe, and no server is asked for its version.
    monkeypatch.setattr("storewise.run.probe.probe", lambda study: None)
    monkeypatch.setattr("storewise.study.template.first_stores", lambda: EMBEDDED)
    # An output that is not complete is an error here, too.
    done = storewise("init", outputs, "-o", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "cut.m10, line" in done.stderr
    assert "1 of 4 outputs are not complete or cannot be read; no study was written" in done.stderr
    assert "--quarantine" in done.stderr and not (tmp_path / "mine.yaml").exists()
    done = storewise("init", outputs, "-o", "mine.yaml", "--quarantine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    study = load_study(tmp_path / "mine.yaml", inputs_exist=True)
    assert list(study.engines)[:4] == ["files", "sqlite", "duckdb", "parquet"]
    phases = {phase.name: phase.params for phase in study.phases}
    assert list(phases) == ["write", "read", "query"]
    assert min(phases[name]["seconds"] for name in ("read", "query")) >= 5
    # One configuration of each store.
    assert len(study.trials()) == study.repeats * len(study.engines)
    words = " ".join(done.stderr.split())
    assert f"{outputs}: 4 files" in words
    assert "of 3 files that were read" in words
    assert "not complete: " in words
    assert "cut.m10, line" in words
    assert study.on_bad_input == "quarantine"
    assert "goes on without these 1" in words
    assert f"{len(study.trials())} trials, which take about" in words
    # Only --force replaces it.
    again = storewise("init", outputs, "-o", "mine.yaml", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
    done = storewise("init", outputs, "-o", "mine.yaml", "--force", "--quarantine", cwd=tmp_path)
    assert done.returncode == 0


def test_init_says_what_it_decided_and_refuses_outputs_without_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("storewise.run.probe.probe", lambda study: None)
    monkeypatch.setattr("storewise.study.template.first_stores", lambda: EMBEDDED)
    many = tmp_path / "many"
    many.mkdir()
    for number in range(201):
        (many / f"{number}.m10").symlink_to(DATA / "ssearch36_nohits.m10")
    done = storewise("init", many, "-o", "many.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stderr.split())
    assert "a sample of 200 files" in words
    assert "not asked, because most hits have no gene: gene_hits, top_genes" in words
    assert load_study(tmp_path / "many.yaml").inputs.sample.files == 200
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a.m10").write_bytes((DATA / "ssearch36.m10").read_bytes()[:900])
    done = storewise("init", bad, "-o", "bad.yaml", "--quarantine", cwd=tmp_path)
    assert done.returncode == 2 and "1 files with no search result" in done.stderr
    assert not (tmp_path / "bad.yaml").exists()


def test_doctor_knows_what_was_meant():
    done = storewise("doctor", "sqllite")
    assert done.returncode == 1
    assert "did you mean 'sqlite'" in done.stdout


def test_names_of_results_are_found_in_one_way(tmp_path):
    (tmp_path / "results" / "demo" / "trials").mkdir(parents=True)
    for command in ("analyse", "report"):
        done = storewise(command, "demmo", cwd=tmp_path)
        assert done.returncode == 2
        assert "did you mean 'demo'" in done.stderr
    for name in ("demo", "results/demo", "mine/demo.yaml"):
        with contextlib.chdir(tmp_path):
            assert results_of(name, Path("results")).resolve() == tmp_path / "results" / "demo"


def test_a_bundle_has_what_the_page_links_to(tmp_path):
    page = {"report.html", "summary.csv", "study.json", "analysis/summary.csv", "figures/a.png"}
    linked = {*page, "trials/t/read.0.parquet"}
    for name in (*linked, "trials/t/store.0/db", "logs/run.log", "inputs/files.txt"):
        (tmp_path / "demo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "demo" / name).write_text(name)
    assert write_bundle(tmp_path / "demo", tmp_path / "demo.zip") == 6
    with zipfile.ZipFile(tmp_path / "demo.zip") as bundle:
        assert bundle.testzip() is None
        assert {name.removeprefix("demo/") for name in bundle.namelist()} == linked
