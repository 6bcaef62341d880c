"""The study file: what is accepted, and what each refusal says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.paths import ROOT

from storewise.errors import ConfigError
from storewise.study.inputs import Inputs, SampleOf, Search
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.study.trial import Trial

BASE = """\
inputs: {paths: data}
engines: [null, sqlite]
phases:
  - write: {batch_size: 10}
  - read: {operations: 100}
"""


def study(tmp_path: Path, text: str = BASE, name: str = "s.yaml", **options: str) -> Study:
    path = tmp_path / name
    path.write_text(text)
    return load_study(path, **options)  # type: ignore[arg-type]


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        study(tmp_path, text)
    return str(error.value)


def test_the_demo_is_what_the_readme_says() -> None:
    demo = load_study("demo", root=ROOT)
    assert len(demo.trials()) == 5 * 3
    assert set(demo.engines) == {"files", "null", "sqlite", "duckdb", "parquet"}


def test_a_bare_null_is_the_null_engine(tmp_path: Path) -> None:
    assert list(study(tmp_path).engines) == ["null", "sqlite"]
    text = BASE.replace("[null, sqlite]", "{null: {}, sqlite: }")
    assert list(study(tmp_path, text).engines) == ["null", "sqlite"]
    left = study(tmp_path, BASE + "exclude: [{engine: null}]\n").trials()
    assert [trial.engine for trial in left] == ["sqlite"]


@pytest.mark.parametrize(
    ("change", "line", "parts"),
    [
        (("engines: [null, sqlite]", "engines: [null, sqlit]"), 2, ["sqlit", "sqlite"]),
        (("engines:", "engine:"), 2, ["engine", "did you mean 'engines'"]),
        (("operations: 100", "operatoins: 100"), 5, ["operatoins", "'operations'"]),
        (("operations: 100", "operations: many"), 5, ["read", "operations", "'many'"]),
        (("operations: 100", "operations: 0"), 5, ["operations", "0"]),
        (("- read", "- reed"), 5, ["reed", "did you mean 'read'"]),
        (("paths: data", "path: data"), 1, ["inputs.path", "'paths'"]),
        (("{paths: data}", "{}"), 1, ["inputs", "paths", "search"]),
        (("phases:", "repeats: two\nphases:"), 3, ["repeats", "'two'"]),
        (("phases:", "on_bad_input: skip\nphases:"), 3, ["on_bad_input", "quarantine"]),
        (("phases:", "factors: {worker: 2}\nphases:"), 3, ["worker", "'workers'"]),
        (("phases:", "factors: {workers: [1, 0]}\nphases:"), 3, ["workers", "0"]),
        (("phases:", "factors: {workers: []}\nphases:"), 3, ["workers", "no levels"]),
        (("phases:", "factors: {workers: [2, 2]}\nphases:"), 3, ["workers", "twice"]),
        (("phases:", "factors: {write.batchsize: 5}\nphases:"), 3, ["batchsize", "batch_size"]),
        (("phases:", "factors: {consistency: durabel}\nphases:"), 3, ["durabel", "'durable'"]),
        (("phases:", "indexes: [align.nothing]\nphases:"), 3, ["align.nothing"]),
        (("phases:", "publish: p.yaml\nphases:"), 3, ["publish", "s3://BUCKET/PREFIX"]),
        (("phases:", "publish: {too: s3://b}\nphases:"), 3, ["publish.too", "'to'"]),
        (
            ("phases:", "publish: {to: s3://bkt, nam: a}\nphases:"),
            3,
            ["publish.nam", "mean 'name'"],
        ),
        (("phases:", "publish: {to: s3://bkt, name: a b}\nphases:"), 3, ["publish: name", "'a b'"]),
        (("phases:", "publish: {name: a}\nphases:"), 3, ["publish.to", "missing"]),
        (("phases:", "prices: p.yaml\nphases:"), 3, ["prices", "mapping"]),
        (("phases:", "prices: {node_hours: 1}\nphases:"), 3, ["node_hours", "node_hour"]),
        (("phases:", "weights: {read: 0}\nphases:"), 3, ["weights", "above 0"]),
        (("phases:", "corpus: {files: 0}\nphases:"), 3, ["corpus.files", "0"]),
        (("phases:", "weights: {reed: 1}\nphases:"), 3, ["reed", "'read'"]),
        (("phases:", "repeats: 2\nrepeats: 3\nphases:"), 4, ["repeats", "twice", "line 3"]),
        (("phases:", "exclude: [{engin: null}]\nphases:"), 3, ["engin", "'engine'"]),
        (("phases:", "exclude: [{workers: 1}]\nphases:"), 3, ["no trial"]),
        (("phases:", "scale: small\nphases:"), 3, ["small"]),
    ],
)
def test_a_refusal_names_file_line_key_and_remedy(
    tmp_path: Path, change: tuple[str, str], line: int, parts: list[str]
) -> None:
    message = refusal(tmp_path, BASE.replace(*change))
    assert message.startswith(f"{tmp_path / 's.yaml'}, line {line}: "), message
    for part in parts:
        assert part in message


def test_what_an_engine_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    text = BASE.replace("[null, sqlite]", "[parquet]") + "factors: {index: after}\n"
    message = refusal(tmp_path, text)
    assert "parquet" in message
    assert "secondary indexes" in message


@pytest.mark.parametrize(
    ("engines", "more", "words"),
    [
        ("{parquet: {partition: gene}}", "", "engines.parquet.partition"),
        ("{parquet: {reader: duckdb, place: 's3://b/x'}}", "", "use `reader: pyarrow`"),
        ("{parquet: {target_size: 12}}", "", "engines.parquet.target_size"),
        ("{parquet: {target_size: 12 apples}}", "", "'12 apples' is no size"),
        (
            "{parquet: {sort: query}}",
            "study_fields: true\nindexes: []\n",
            "`sort: query` needs the queries",
        ),
        ("[parquet]", "factors: {parquet.partition: [hash, gene]}\n", "parquet.partition"),
    ],
)
def test_layouts_of_a_data_set(tmp_path: Path, engines: str, more: str, words: str) -> None:
    assert words in refusal(tmp_path, BASE.replace("[null, sqlite]", engines) + more)
    good = "factors: {parquet.partition: [hash, query], parquet.sort: [id, query]}\n"
    trials = study(tmp_path, BASE.replace("[null, sqlite]", "[parquet]") + good).trials()
    assert {(t.settings["partition"], t.settings["sort"]) for t in trials} == {
        (partition, sort) for partition in ("hash", "query") for sort in ("id", "query")
    }


def test_yaml_that_cannot_be_read(tmp_path: Path) -> None:
    assert "line 2" in refusal(tmp_path, "engines: [a\nfactors: }")
    assert "mapping" in refusal(tmp_path, "- a\n- b\n")
    with pytest.raises(ConfigError, match="no such study file"):
        load_study(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        load_study("dem", root=ROOT)


def test_extends_and_scales_merge_mappings_and_replace_the_rest(tmp_path: Path) -> None:
    study(tmp_path, BASE + "factors: {workers: [1, 2], threads: 1}\n", name="base.yaml")
    text = "extends: base.yaml\nfactors: {workers: 4}\nscales: {tiny: {repeats: 3}}\n"
    result = study(tmp_path, text)
    assert result.factors == {"workers": [4], "threads": [1]}
    assert result.repeats == 1
    assert study(tmp_path, text, scale="tiny").repeats == 3
    assert "extends itself" in refusal(tmp_path, "extends: s.yaml\n")


def test_a_key_of_the_base_is_named_with_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE.replace("operations", "operatons"))
    message = refusal(tmp_path, "extends: base.yaml\nrepeats: 2\n")
    assert message.startswith(f"{tmp_path / 'base.yaml'}, line 5: ")


def ids(result: Study) -> list[str]:
    return [trial.id for trial in result.trials()]


def test_new_engines_levels_and_repeats_leave_other_trials_as_they_are(tmp_path: Path) -> None:
    before = study(tmp_path)
    for change in (
        BASE.replace("[null, sqlite]", "[null, sqlite, duckdb]"),
        BASE + "repeats: 3\n",
        BASE + "factors: {workers: [1, 2]}\n",
    ):
        after = study(tmp_path, change)
        kept = [i for i in ids(after) if i in set(ids(before))]
        assert kept == ids(before)
        assert len(ids(after)) > len(kept)
        by_id = {t.id: t for t in after.trials()}
        assert all(by_id[t.id] == t for t in before.trials())


def test_factors_reach_phases_and_settings(tmp_path: Path) -> None:
    text = BASE + "factors: {write.batch_size: [5, 7], processes: 3}\n"
    trials: list[Trial] = study(tmp_path, text).trials()
    assert {t.phase("write").params["batch_size"] for t in trials} == {5, 7}
    assert {t.shards for t in trials} == {3}
    assert len({t.seed for t in trials}) == len(trials)


def test_every_key_is_explained() -> None:
    text = (ROOT / "config" / "README.md").read_text()
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    keys = set(Study.model_fields) - {"name"} | {"extends", "scales"}
    keys |= set(Inputs.model_fields) | set(Search.model_fields)
    assert keys <= explained, keys - explained
    assert set(SampleOf.model_fields) <= set(re.findall(r"[a-z]+", text))
