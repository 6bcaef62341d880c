"""What `storewise init` writes, by the stores and what the hits have; what it refuses."""

from pathlib import Path

import pytest
from support.paths import SMALL

from storewise.errors import ConfigError, InputError
from storewise.study import template
from storewise.study.load import load_study
from storewise.study.template import check_outputs, first_stores, path_of, write_study


@pytest.fixture
def outputs(tmp_path):
    """One output in a folder below, behind a file that is none."""
    inside = tmp_path / "my outputs, 2" / "run"
    inside.mkdir(parents=True)
    (inside.parent / "notes.txt").write_text("nothing")
    (inside / SMALL[0].name).symlink_to(SMALL[0])
    return inside.parent


@pytest.mark.parametrize("genes", [True, False])
@pytest.mark.parametrize("scores", [True, False])
def test_what_hits_do_not_have_is_not_asked(outputs, genes, scores):
    path, engines = outputs.parent / "mine.yaml", ("files", "sqlite", "parquet")
    write_study(outputs, path, engines=engines, genes=genes, scores=scores)
    study = load_study(path, inputs_exist=True)
    assert study.title == "Stores for my outputs, 2"
    assert study.inputs.paths == [str(outputs)] and study.inputs.sample is None
    assert list(study.engines) == list(engines)
    asked = {"gene_hits", "top_genes"} if genes else set()
    asked |= {"best_hits", "strong_hits", "bits_histogram"} if scores else set()
    query = [set(phase.params["questions"]) for phase in study.phases if phase.name == "query"]
    assert query == ([asked] if asked else [])
    indexes = {"align.q": scores, "align.gene": genes, "align.e": scores}
    assert study.indexes == [field for field, wanted in indexes.items() if wanted]
    assert f"storewise run {path}" in path.read_text()
    # Stores that have indexes are measured with them, the others without.
    times = {t.engine: t.index_time for t in study.trials()}
    assert times == {"files": "none", "sqlite": "after", "parquet": "none"}


def test_of_many_files_a_sample_is_taken(outputs, monkeypatch):
    write_study(outputs, outputs.parent / "mine.yaml", engines=("sqlite",), sample=True)
    study = load_study(outputs.parent / "mine.yaml")
    assert (study.inputs.sample.files, study.inputs.sample.seed) == (200, 1)
    assert study.on_bad_input == "fail"
    monkeypatch.setattr(template, "LOOKED_AT", 1)
    (outputs / "run" / SMALL[0].name).unlink()
    for place, says in (
        (outputs, "none of the first 1 files is an output of a search"),
        (outputs / "run", "the directory holds no file"),
        (outputs / "no", "there is no such directory"),
    ):
        with pytest.raises(InputError, match=says):
            check_outputs(place)


def test_where_it_is_written(outputs, monkeypatch):
    monkeypatch.chdir(outputs.parent)
    assert path_of(outputs, None, force=False) == Path("config/studies/my-outputs-2.yaml")
    assert path_of(Path("/"), None, force=False) == Path("config/studies/study.yaml")
    assert path_of("s3://bkt/my/prefix", None, force=False).name == "prefix.yaml"
    path = path_of(outputs, None, force=False)
    write_study(outputs, path, engines=("sqlite",))
    assert load_study("my-outputs-2").inputs.paths == [str(outputs)]
    with pytest.raises(ConfigError, match="exists already; name another with -o, or use --force"):
        path_of(outputs, None, force=False)
    assert path_of(outputs, path, force=True) == path


def test_a_first_study_has_stores_that_need_little():
    embedded = ["files", "sqlite", "duckdb", "parquet"]
    assert first_stores() == [*embedded, "postgres", "mariadb", "mongodb"]
