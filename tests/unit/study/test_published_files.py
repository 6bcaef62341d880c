"""Published studies: their files, and how studies name them."""

import pytest
from support.paths import ROOT
from support.results.references import CSV, YAML

from storewise.errors import ConfigError
from storewise.study import references as files
from storewise.study.load import load_study

NAMES = ("altoros2013", "andor2019", "balasubramanian2014", "mahmood2015", "niec2014")


@pytest.mark.parametrize("name", NAMES)
def test_every_published_row_is_comparable_or_has_a_reason(name):
    path = files.find_reference(name, ROOT)
    result = files.load_reference(path)
    lines = {cell.line for cell in files.cells(result)}
    others = [r for n, r in enumerate(result.rows, start=2) if n not in lines]
    assert lines and all(files.reason(result, row) for row in others)
    assert result.citation.year > 2000 and result.hardware and result.cited().count(".") >= 2
    # What is kept of it in a study's results says the same.
    texts = files.reference_texts([path])[name]
    assert files.parse_reference(name, texts["yaml"], texts["csv"]) == result


@pytest.mark.parametrize(
    ("change", "more", "parts"),
    [
        (("value: rate", "value: rat"), "", ["no column 'rat'", "engine, n, key, rate, note"]),
        (("note: words}", "}"), "", ["columns", "'note'", "not explained"]),
        (("{note: guessed}", "{note: other}"), "", ["line 8", "not_compared"]),
        (("hardware:", "hardwear:"), "", ["hardwear", "did you mean 'hardware'"]),
        (("id: rates", "id: Rates!"), "", ["series.0.id"]),
        (("[{engine: postgres}", "[{store: postgres}"), "", ["systems.theirs", "engine"]),
        (("value: rate", "value: key"), "", ["line 2", "'a' is not a number"]),
        (("citation: {", "rows: []\ncitation: {"), "", ["rows", "files themselves"]),
        (("citation: {", "- citation: {"), "", ["nobody2001"]),
        (("", ""), "sqlite,1\n", ["line 9", "too many or too few"]),
    ],
)
def test_a_bad_reference_says_what_is_wrong(change, more, parts):
    with pytest.raises(ConfigError) as error:
        files.parse_reference("nobody2001", YAML.replace(*change), CSV + more)
    assert all(part in str(error.value) for part in parts), str(error.value)


def test_a_study_names_references_by_name_or_path(tmp_path):
    (tmp_path / "nobody2001.yaml").write_text(YAML)
    (tmp_path / "nobody2001.csv").write_text(CSV)
    path = tmp_path / "s.yaml"

    def read(names):
        text = "inputs: {paths: data}\nengines: [sqlite]\nphases: [write]\n"
        path.write_text(f"{text}references: {names}\n")
        return load_study(path, root=ROOT).references

    assert read("[niec2014, nobody2001.yaml]") == ["niec2014", "nobody2001.yaml"]
    assert read("niec2014") == ["niec2014"]
    (tmp_path / "nobody2001.csv").unlink()
    for names, why in (
        ("[niec2013]", "line 4.*did you mean 'niec2014'"),
        ("[none.yaml]", "line 4.*none.yaml.*no such file"),
        ("[niec2014, niec2014]", "references.1.*two references"),
        ("[nobody2001.yaml]", r"nobody2001\.csv: the reference cannot be read"),
    ):
        with pytest.raises(ConfigError, match=f"(?s){why}"):
            read(names)
