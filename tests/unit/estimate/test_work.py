"""What a trial has to do and at which rate: amounts, tried-out rates, measured rates, by hand."""

from types import SimpleNamespace

import pytest
from support.paths import ROOT

from storewise.estimate import work
from storewise.estimate.work import DEFAULT, Amount, Probe, Rates, documents_of, work_of
from storewise.study.load import load_study


def load(root, text):
    (root / "s.yaml").write_text(text)
    return load_study(root / "s.yaml", root=ROOT)


def of(amount):
    return amount.mean, amount.low, amount.high


def test_amounts_by_hand():
    one, other = Amount(4, 2, 10, "a"), Amount(6, 5, 7, "b")
    assert of(Amount.within(6, 3, "s")) == (6, 2, 18)
    assert of(Amount.exact(3)) == (3, 3, 3)
    assert of(Amount.total([one, other])) == (10, 7, 17)
    assert of(one.times(0.5)) == (2, 1, 5) and one.times(2).source == "a"
    # The least work at the highest rate takes shortest.
    assert of(one.over(Amount(2, 1, 4, ""))) == (2, 0.5, 10)


def test_a_probe_narrows_the_rate_of_its_own_engine_more_than_of_others():
    rate = Probe("sqlite", {"documents_per_s": 900, "operations_per_s": 50}).rate
    assert of(rate("sqlite", "write", "documents_per_s")) == (900, 450, 1800)
    assert of(rate("duckdb", "write", "documents_per_s")) == (900, 225, 3600)
    assert of(rate("sqlite", "read", "operations_per_s")) == (50, 25, 100)
    # A question is no read by id: nobody tried it out.
    assert of(rate("sqlite", "query", "operations_per_s")) == (2000, 500, 8000)
    assert of(Probe("", {}).rate("sqlite", "write", "documents_per_s")) == (4000, 1000, 16000)


INPUTS = "inputs: {paths: /not/here}\nengines: [sqlite]\ncorpus: {files: 100, bytes: 163000}\n"


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        # 1,000 documents at 100 a second, read at 50 a second.
        ("[write]", [10]),
        ("[write, read: {operations: 200}]", [14]),
        # What the load leaves to the phase after it, and a part of the volume.
        ("[write: {leave: 0.25}, mixed: {operations: 1000}]", [7.5 + 1000 / 2000]),
        ("[write]\nfactors: {volume: [0.1, 1]}", [1, 10]),
        # However many workers: the rates are of the whole trial.
        ("[write, read: {operations: 200}]\nfactors: {workers: [5]}", [14]),
    ],
)
def test_seconds_of_the_inputs_documents(tmp_path, phases, expected):
    study = load(tmp_path, f"{INPUTS}phases: {phases}\n")
    documents = documents_of(study, tmp_path)
    assert of(documents) == pytest.approx((1000, 1000 / 1.5, 1500))
    probe = Probe("sqlite", {"documents_per_s": 100, "operations_per_s": 50})
    seconds = [
        work_of(trial, documents, Rates(tmp_path, probe)).seconds
        for trial in sorted(study.trials(), key=lambda trial: trial.volume)
    ]
    assert [one.mean for one in seconds] == pytest.approx(expected)
    assert all(one.low < one.mean < one.high for one in seconds)


def test_sizes_of_many_files_are_those_of_some_evenly_taken(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(9):
        (data / f"{number}.m10").write_bytes(b"x" * 163 * (number + 1))
    (data / "9.m10.zst").write_bytes(b"x" * 163)
    study = load(tmp_path, f"inputs: {{paths: {data}}}\nengines: [sqlite]\nphases: [write]\n")
    # 1 + 2 + ... + 9, and 6.6 times what is compressed.
    assert documents_of(study, tmp_path).mean == pytest.approx(45 + 6.6)
    monkeypatch.setattr(work, "_LOOKED_AT", 4)
    # Every third: 1, 4, 7 and the compressed one, of ten files.
    assert documents_of(study, tmp_path).mean == pytest.approx((1 + 4 + 7 + 6.6) / 4 * 10)


SUMMARY = """engine,workers,phase,step,operation,measure,mean,low,high
sqlite,1,c,0,all,operations_per_s,100,90,110
sqlite,1,c,0,get,operations_per_s,7,7,7
sqlite,1,c,1,all,operations_per_s,400,380,420
sqlite,2,c,0,all,operations_per_s,810,800,1000
sqlite,1,a,0,all,operations_per_s,100,,
sqlite,1,b,0,all,operations_per_s,0,0,0
"""
ABOUT = "measured, 2 times more or less"


@pytest.mark.parametrize(
    ("engine", "phase", "expected", "source"),
    [
        # Of all levels and steps: the cube root of 100 * 400 * 810.
        ("sqlite", "c", (318.8, 90, 1000), "measured"),
        # One repeat has no interval.
        ("sqlite", "a", (100, 50, 200), ABOUT),
        ("sqlite", "b", (2000, 500, 8000), DEFAULT),
        ("duckdb", "c", (2000, 500, 8000), DEFAULT),
        ("sqlite", "load", (2000, 500, 8000), DEFAULT),
    ],
)
def test_a_rate_is_that_of_earlier_results_of_the_engine(tmp_path, engine, phase, expected, source):
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "summary.csv").write_text(SUMMARY)
    phases = "[load, a: {operations: 9}, b: {operations: 9}, c: {operations: 9}]"
    text = f"workload: ycsb\nphases: {phases}\nengines: [{engine}]\n"
    (trial,) = load(tmp_path, text).trials()
    rate = Rates(tmp_path).of(trial, phase, "operations_per_s")
    assert of(rate) == pytest.approx(expected, rel=1e-3)
    assert rate.source == source


@pytest.mark.parametrize(
    ("level", "phase", "measure", "expected", "words"),
    [
        ("durable", "load", "documents_per_s", (400, 100, 1600), "level durable: about 100 docu"),
        ("strong", "a", "operations_per_s", (400, 100, 1600), "Riak KV waits for the disk"),
        ("relaxed", "load", "documents_per_s", (4000, 1000, 16000), DEFAULT),
        ("durable", "c", "operations_per_s", (2000, 500, 8000), DEFAULT),
    ],
)
def test_a_store_that_waits_for_its_disk_with_each_document_is_slow(
    tmp_path, level, phase, measure, expected, words
):
    phases = "[load, a: {operations: 9}, c: {operations: 9}]"
    text = f"workload: ycsb\nphases: {phases}\nengines: [riak]\n"
    (trial,) = load(tmp_path, f"{text}factors: {{consistency: [{level}]}}\n").trials()
    rate = Rates(tmp_path).of(trial, phase, measure)
    assert of(rate) == expected and words in rate.source


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(None, 40), ("{}", 10), ('{"inputs": {"paths": ["another"]}}', 10), ("[", 10)],
)
def test_a_manifest_counts_for_its_own_inputs_only(tmp_path, monkeypatch, stored, expected):
    manifest = SimpleNamespace(documents=40, files=3)
    monkeypatch.setattr(work, "read_manifest", lambda path: (manifest, []))
    inputs = INPUTS.replace("files: 100, bytes: 163000", "files: 1, bytes: 1630")
    study = load(tmp_path, f"{inputs}phases: [write]\n")
    if stored is not None:
        (tmp_path / "study.json").write_text(stored)
    assert documents_of(study, tmp_path).mean == pytest.approx(expected)
