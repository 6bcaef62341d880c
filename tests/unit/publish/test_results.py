"""What is published: links, names, tags, parts and settings."""

import json
from pathlib import Path

import pytest
from support.paths import ROOT
from support.results.published import write_results

from storewise.errors import StorewiseError
from storewise.publish.results import select, study_files, write_config
from storewise.s3.uri import parse
from storewise.study.load import load_study
from storewise.study.publication import Publish, folder_of, tags_of
from storewise.study.references import find_reference, reference_texts


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def test_links_are_followed_but_not_in_circles(results, tmp_path):
    elsewhere = tmp_path / "scratch" / "t"
    elsewhere.parent.mkdir()
    (results / "trials" / "t").rename(elsewhere)
    (results / "trials" / "t").symlink_to(elsewhere)
    assert "trials/t/write.0.parquet" in {file.name for file in select(results)}
    (results / "logs" / "circle").symlink_to(results / "logs")
    with pytest.raises(StorewiseError, match="circle: a link to a directory that it is in"):
        select(results)
    (results / "logs" / "circle").unlink()
    (results / "logs" / "nothing").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorewiseError, match="nothing: a link to nothing"):
        select(results)


def test_results_without_anything_to_publish(tmp_path):
    with pytest.raises(StorewiseError, match="there is no analysis to publish"):
        write_config(tmp_path)
    (tmp_path / "study.json").write_text('{"name": "s"}')
    with pytest.raises(StorewiseError, match="no trial was measured here"):
        write_config(tmp_path)


NO_NAME = "is not a study's name"
DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "file, text, said",
    [
        ("study.json", '{"name": "../../x"}', NO_NAME),
        ("study.json", '{"name": "x\\npublish: y"}', NO_NAME),
        pytest.param("study.json", DEEP, "not a study", id="study-deep"),
        ("references.json", '{"../../x": {"yaml": "", "csv": ""}}', NO_NAME),
        ("references.json", '{"/x": {"yaml": "", "csv": ""}}', NO_NAME),
        ("references.json", '{"x": {"/../../x": ""}}', "a YAML and a CSV"),
        pytest.param("references.json", DEEP, "not the references", id="references-deep"),
    ],
)
def test_files_that_were_pulled_write_nothing_elsewhere(file, text, said, results, tmp_path):
    (results / file).write_text(text)
    before = {path for path in tmp_path.rglob("*") if "config" not in path.parts}
    with pytest.raises(StorewiseError, match=said):
        write_config(results)
    assert {path for path in tmp_path.rglob("*") if "config" not in path.parts} == before


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"to": "bucket/p"}, "names nothing on S3"),
        ({"to": "s3://bucket", "name": "a/b"}, "letters, digits, dots"),
        ({"to": "s3://bucket", "tags": {"study": "x"}}, "not yours to set"),
        ({"to": "s3://bucket", "tags": {"a": "b;c"}}, "';' is not taken by S3"),
        ({"to": "s3://bucket", "tags": {str(i): "" for i in range(7)}}, "7 of them; S3 takes 10"),
    ],
)
def test_settings_that_s3_would_refuse(given, expected):
    with pytest.raises(ValueError, match=expected):
        Publish.model_validate(given)


def test_names_and_tags():
    settings = Publish(to="s3://bucket/a/b/")
    assert folder_of(settings, "s", 0.9) == parse("s3://bucket/a/b/19700101T000000Z-s/")
    tags = tags_of(settings, "a,b", 0)
    assert tags["study"] == "a_b" and "name" not in tags


@pytest.mark.parametrize(
    "name, scale", [("demo", None), ("niec2014-nodes", "paper"), ("ycsb", None), ("measures", None)]
)
def test_a_study_is_the_same_from_its_one_file(name, scale, tmp_path):
    """Without the checkout that it was read in: its prices, references and what it extends."""
    study = load_study(name, scale=scale, root=ROOT)
    references = reference_texts(find_reference(one, ROOT) for one in study.references)
    results = tmp_path / "results" / name
    (results / "trials" / "t").mkdir(parents=True)
    (results / "trials" / "t" / "verify.parquet").write_text("")
    (results / "study.json").write_text(json.dumps(study.model_dump(mode="json")))
    (results / "references.json").write_text(json.dumps(references))
    credentials = ROOT / "config" / "studies" / f"{name}.yaml"
    write_config(results, study_files(credentials, ROOT))
    again = load_study(results / "config" / f"{name}.yaml", root=tmp_path)
    assert again.model_copy(update={"references": study.references}) == study
    assert [Path(one).stem for one in again.references] == study.references
    assert {trial.id for trial in again.trials()} == {trial.id for trial in study.trials()}
    assert (results / "config" / "written" / f"{name}.yaml").read_text() == credentials.read_text()
    # Analysed with that very file, which is the user's by now, it is not written anew.
    (results / "config" / f"{name}.yaml").write_text(credentials.read_text())
    write_config(results, [results / "config" / f"{name}.yaml"])
    assert (results / "config" / f"{name}.yaml").read_text() == credentials.read_text()
