"""Parameters of the workload ``ycsb``: names, property files, refusals."""

import logging

import pytest

from storewise.errors import ConfigError
from storewise.study.load import load_study
from storewise.workloads.ycsb.params import LoadParams, MixedParams, shares
from storewise.workloads.ycsb.properties import read_properties

#: As YCSB's own workloads/workloada, with what users add to it.
WORKLOAD_A = """\
# Yahoo! Cloud System Benchmark
recordcount=300
operationcount=600
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.5
updateproportion = 0.5
scanproportion: 0
insertproportion=0
requestdistribution=hotspot
exponential.percentile=90
hotspotdatafraction=0.1
! for the database
mongodb.url=mongodb://localhost:27017/ycsb?\\
    w=1
hdrhistogram.percentiles=50,95,99
threadcount=8
"""

STUDY = """\
workload: ycsb
engines: [sqlite]
phases:
  - load: {recordcount: 500}
  - run: {operationcount: 10}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workloada").write_text(WORKLOAD_A)
    return tmp_path


def study(place, text):
    (place / "s.yaml").write_text(text)
    return load_study(place / "s.yaml")


def refusal(place, text):
    with pytest.raises(ConfigError) as error:
        study(place, text)
    return str(error.value)


def test_defaults_are_those_of_ycsb():
    load, run = LoadParams(), MixedParams(operationcount=1)
    record = (load.fieldcount, load.fieldlength, load.fieldlengthdistribution)
    assert record == (10, 100, "constant")
    assert (load.insertorder, load.zeropadding, load.insertstart) == ("hashed", 1, 0)
    assert {k: v for k, v in shares("run", run).items() if v} == {"read": 0.95, "update": 0.05}
    assert (run.requestdistribution, run.minscanlength, run.maxscanlength) == ("uniform", 1, 1000)
    assert (run.hotspotdatafraction, run.hotspotopnfraction) == (0.2, 0.8)
    assert (run.exponential_percentile, run.exponential_frac) == (95, 0.8571428571)
    assert (run.readallfields, run.writeallfields) == (True, False)


def test_ycsbs_names_stand_for_ours():
    values = {"operationcount": 5, "maxexecutiontime": 2, "target": 9, "exponential.frac": 0.5}
    params = MixedParams.model_validate(values)
    assert (params.operations, params.seconds, params.rate) == (5, 2, 9)
    assert params.exponential_frac == 0.5


def test_a_property_file(place, caplog):
    text = STUDY.replace("recordcount: 500", "properties: workloada, fieldcount: 3").replace(
        "operationcount: 10", "properties: workloada, hotspotopnfraction: 0.7, operations: 7"
    )
    with caplog.at_level(logging.WARNING):
        result = study(place, text)
    load, run = result.phases
    assert load.params == {"recordcount": 300, "fieldcount": 3}
    shares = {"read": 0.5, "update": 0.5, "scan": 0, "insert": 0}
    hotspot = {"requestdistribution": "hotspot", "hotspotdatafraction": 0.1}
    # The study's own values replace the defaults.
    hotspot |= {"hotspotopnfraction": 0.7, "exponential_percentile": 90, "operations": 7}
    expected = {f"{name}proportion": share for name, share in shares.items()} | hotspot
    assert run.params == expected | {"recordcount": 300, "readallfields": True}
    for words in ("mongodb.url", "hdrhistogram.percentiles", "the factor `threads`"):
        assert words in caplog.text


def test_a_step_takes_a_file_beside_the_study_too(place, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    text = STUDY.replace("500", "300").replace(
        "operationcount: 10", "steps: [{properties: workloada}, {operationcount: 4}]"
    )
    steps = study(place, text).phases[1].steps
    assert steps[0]["requestdistribution"] == "hotspot" and steps[0]["operations"] == 600
    assert steps[1] == {"operations": 4}


def test_syntax_of_property_files(tmp_path):
    path = tmp_path / "p"
    path.write_text("a=1\n  b : two words \nc 3\n#d=4\n! e=5\nf = x\\\n   y\nempty=\nlast=z\\")
    expected = {"a": "1", "b": "two words", "c": "3", "f": "xy", "empty": "", "last": "z"}
    assert {name: value for name, (value, _) in read_properties(path).items()} == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("recordcuont=5", ("workloada, line 18", "recordcuont", "did you mean 'recordcount'")),
        ("workload=site.ycsb.workloads.TimeSeriesWorkload", ("only CoreWorkload",)),
        ("fieldlengthdistribution=histogram", ("line 18", "'constant', 'uniform' or 'zipfian'")),
        ("readproportion=lots", ("workloada, line 18: property 'readproportion' is 'lots'",)),
        ("readproportion=inf", ("line 18", "finite")),
        ("operationcount=many", ("line 18: property 'operationcount' is 'many'", "integer")),
        ("requestdistribution=zipf", ("line 18", "'zipfian'")),
    ],
)
def test_property_files_that_cannot_be_used(place, line, words):
    (place / "workloada").write_text(WORKLOAD_A + line + "\n")
    text = refusal(place, STUDY.replace("operationcount: 10", "properties: workloada"))
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("operationcount: 10", "maxscanlength: 5", "`operations` (over all clients)"),
        (
            "operationcount: 10",
            "operations: 9, readproportion: 0, updateproportion: 0",
            "proportions",
        ),
        ("operationcount: 10", "operationcount: 9, hotspotdatafraction: 1.2", "less than or equal"),
        ("operationcount: 10", "operationcount: 9, minscanlength: 9, maxscanlength: 8", "above"),
        ("operationcount: 10", "operationcount: 9, operations: 9", "are the same"),
        ("operationcount: 10", "operationcount: 9, readpropotion: 1", "'readproportion'"),
        ("operationcount: 10", "operationcount: 9, recordcount: 7", "recordcount is 7, but"),
        ("operationcount: 10", "operationcount: 9, fieldcount: 2", "loaded with 10"),
        ("recordcount: 500", "recordcount: 5, insertstart: 5", "insertstart"),
        ("recordcount: 500", "recordcount: 5, operationcount: 5", "cannot end it"),
        ("recordcount: 500", "recordcount: 0", "greater than or equal to 1"),
        ("recordcount: 500", "dataintegrity: true, fieldlengthdistribution: uniform", "constant"),
        ("sqlite", "parquet", "engine parquet cannot do this: it has no updates"),
        ("run: {operationcount: 10}", "a: {operationcount: 9, readproportion: 1}", "not a known"),
        ("recordcount: 500", "properties: nothere", "/nothere: the property file cannot be read"),
        (
            "run: {operationcount: 10}",
            "c: {properties: workloada}",
            "phase c has 1; use phase `run`",
        ),
    ],
)
def test_refusals(place, old, new, words):
    text = refusal(place, STUDY.replace(old, new))
    assert "s.yaml" in text
    assert words in text


def test_a_factor_of_the_load_reaches_all_phases(place):
    result = study(place, STUDY + "factors: {load.recordcount: [10, 20]}\n")
    assert [t.load.params["recordcount"] for t in result.trials()] in ([10, 20], [20, 10])
    text = STUDY.replace("count: 10}", "count: 10, recordcount: 500}")
    assert "recordcount is 500" in refusal(place, text + "factors: {load.recordcount: [10]}\n")
