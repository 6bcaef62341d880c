"""What a study will cost, before it runs: counted by hand, and with earlier results."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.results import synthetic
from support.results.made import GROUP, SCALED
from typer.testing import CliRunner

from storewise.analysis.pipeline.output import write_csv
from storewise.cli.main import app
from storewise.errors import ConfigError
from storewise.estimate import work
from storewise.estimate.estimate import (
    TooExpensive,
    estimate,
    hosts_of,
    refuse_above,
    still_to_measure,
)
from storewise.estimate.work import DEFAULT, Probe, Rates, documents_of, work_of
from storewise.study.host_classes import parse_classes
from storewise.study.load import load_study
from storewise.study.study import Study

pytestmark = GROUP

CLASSES = parse_classes("data=data/big, large=large/huge, work=work/small/spot")
PRICES = """
prices:
  {node_hour: 1, client_hour: 0.5, gb_month: 0, note: mine, date: 2026-03-31,
   instances: {big: {on_demand: 2}, huge: {on_demand: 8}, small: {spot: 0.25, on_demand: 1}}}
"""
YCSB = "workload: ycsb\nengines: {postgres: {}}\nphases: [load: {recordcount: 400000}"


def load(root, text, **options):
    (root / "s.yaml").write_text(text)
    return load_study(root / "s.yaml", root=root, **options)


def of(amount):
    return amount.mean, amount.low, amount.high


def estimated(root, text, classes=None, **options):
    study = load(root, text)
    return estimate(study, study.trials(), classes or {}, root, **options)


def test_every_host_is_paid_for_the_whole_trial(tmp_path):
    # 400,000 records at 4,000/s are 100 s, 20 s follow, and 180 s beside them: 300 s.
    text = f"{YCSB}, c: {{seconds: 20}}]\nfactors: {{nodes: [3], workers: [2]}}\n{PRICES}"
    result = estimated(tmp_path, text)
    assert (result.trials, result.measured, result.cloud) == (1, 0, False)
    assert [(one.name, one.most) for one in result.lines] == [("data", 3), ("work", 2)]
    assert result.lines[0].hours.mean == pytest.approx(3 * 300 / 3600)
    assert result.money.mean == pytest.approx((3 * 1 + 2 * 0.5) * 300 / 3600)
    # The default rate may be four times more or less, the time beside the phases twice.
    assert of(result.seconds) == pytest.approx((300, 100 / 4 + 20 + 90, 100 * 4 + 20 + 360))
    assert result.money.high == pytest.approx(4 * (400 + 20 + 360) / 3600)


def test_hosts_of_a_cloud_cost_what_their_class_does_and_start_and_wait(tmp_path):
    text = f"{YCSB}]\nfactors: {{nodes: [3], workers: [1], node_class: [data, large]}}\n{PRICES}"
    result = estimated(tmp_path, text, CLASSES)
    assert result.cloud
    lines = [(line.name, line.most, line.price.hour) for line in result.lines]
    assert lines == [("data", 3, 2), ("large", 3, 8), ("work", 1, 0.25)]
    # A trial takes 280 s (115 to 760); of 240 s to start and 600 s idle a quarter is paid.
    data, _, work = ([3600 * one for one in of(line.hours)] for line in result.lines)
    assert data == pytest.approx([3 * (280 + 210), 3 * 115, 3 * (760 + 840)])
    assert work == pytest.approx([2 * (280 + 210), 2 * 115, 2 * (760 + 840)])
    assert dict(result.assumptions)["prices"] == "mine; prices of 2026-03-31"
    with pytest.raises(ConfigError, match="node class 'large' is not one of the profile's"):
        estimated(tmp_path, text, parse_classes("data=d/big, work=w"))
    # A profile may know only the servers' classes.
    result = estimated(tmp_path, f"{YCSB}]\n{PRICES}", parse_classes("data=queue/big"))
    assert [line.price.basis for line in result.lines] == ["big on demand", "client_hour"]


def test_trials_at_a_time_hosts_here_and_what_each_engine_takes(tmp_path):
    text = YCSB.replace("postgres: {}", "postgres: {}, sqlite: {}")
    text += f", c: {{seconds: 20}}]\nfactors: {{nodes: [1, 3], workers: [2]}}\n{PRICES}"
    study = load(tmp_path, text)
    trials = study.trials()
    result = estimate(study, trials, {}, tmp_path)
    # Loads of 100 s and 20 s that follow; 180 s beside them with servers, 45 s without.
    assert result.seconds.mean == pytest.approx(2 * 300 + 165)
    assert result.guessed
    shown = [(one.engine, one.trials, one.seconds.mean) for one in result.engines]
    assert shown == [("postgres", 2, pytest.approx(300)), ("sqlite", 1, 165)]
    servers, workers = result.lines
    assert workers.hours.mean * 3600 == pytest.approx(2 * 765)
    assert servers.hours.mean * 3600 == pytest.approx((1 + 3) * 300)
    assert result.money.mean == pytest.approx((1200 * 1 + 1530 * 0.5) / 3600)
    two = load(tmp_path, f"{text}\nlive_sessions: 2\n")
    assert estimate(two, trials[:1], {}, tmp_path).seconds.mean in (165, pytest.approx(300))
    at_once = estimate(two, trials, {}, tmp_path)
    assert at_once.seconds.mean == pytest.approx(result.seconds.mean / 2)
    assert at_once.money.mean == pytest.approx(result.money.mean)
    # On this machine: one host, and less beside the phases.
    probe = Probe("sqlite", {"documents_per_s": 8000})
    here = estimate(study, trials, {}, tmp_path, here=True, probe=probe)
    assert here.seconds.mean == pytest.approx(2 * (50 + 20 + 15) + 50 + 20 + 5)
    assert [(line.name, line.most) for line in here.lines] == [("work", 1)]
    assert not here.guessed
    nothing = estimate(study, [], {}, tmp_path)
    assert (nothing.trials, nothing.measured, nothing.lines) == (0, 3, [])


INPUTS = "inputs: {paths: /not/here}\nengines: [sqlite]\ncorpus: {files: 10, bytes: 163000}\n"
MEASURES = "workload: measures\nengines: [sqlite]\nphases: [load: {rows: 8000}, add: {rows: 4000},"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # After 400,000 records.
        (f"{YCSB}, c: {{operations: 100000}}]", (150, 37.5, 600)),
        (f"{YCSB}, c: {{operations: 100000, seconds: 30}}]", (130, 37.5, 430)),
        (f"{YCSB}, c: {{operations: 1000, rate: 100}}]", (110, 35, 410)),
        (f"{YCSB}, c: {{seconds: 7, steps: [{{threads: 1}}, {{seconds: 9}}]}}]", (116, 41, 416)),
        (
            f"{YCSB}, c: {{search: {{limit_ms: 5, low: 1, high: 9, steps: 4, seconds: 5}}}}]",
            (120, 35, 420),
        ),
        # 1,000 documents at 4,000 a second, give or take a half, and what the load leaves.
        (f"{INPUTS}phases: [write]", (1 / 4, 1 / 24, 3 / 2)),
        (f"{INPUTS}phases: [write]\nfactors: {{volume: [0.1]}}", (1 / 40, 1 / 240, 3 / 20)),
        (f"{INPUTS}phases: [write, read: {{operations: 200}}]", (0.35, 1 / 24 + 0.025, 1.9)),
        (
            f"{INPUTS}phases: [write: {{leave: 0.25}}, mixed: {{operations: 1000}}]",
            (0.75 / 4 + 0.5, 0.75 / 24 + 0.125, 0.75 * 3 / 2 + 2),
        ),
        # However many workers: the rates are of the whole trial.
        (f"{INPUTS}phases: [write]\nfactors: {{workers: [5]}}", (1 / 4, 1 / 24, 3 / 2)),
        # 12,000 rows stored, ten questions of two kinds.
        (
            f"{MEASURES} q2: {{selectivity_pct: [1, 2], operations: 10}}]",
            (3.01, 0.7525, 12.04),
        ),
    ],
)
def test_phases_last_as_they_say(tmp_path, text, expected):
    study = load(tmp_path, text)
    (trial,) = study.trials()
    documents = documents_of(study, tmp_path) if "inputs" in text else None
    assert of(work_of(trial, documents, Rates(tmp_path)).seconds) == pytest.approx(expected)


def test_documents_come_from_the_manifest_from_sizes_or_from_the_corpus(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(9):
        (data / f"{number}.m10").write_bytes(b"x" * 163 * (number + 1))
    (data / "9.m10.zst").write_bytes(b"x" * 163)

    def documents(paths, more=""):
        text = f"inputs: {{paths: {paths}}}\nengines: [null]\nphases: [write]\n{more}"
        return documents_of(load(tmp_path, text), tmp_path)

    # 1 + 2 + ... + 9, and 6.6 times what is compressed.
    assert documents(data).mean == pytest.approx(45 + 6.6)
    for sample, expected in (("files: 5", 25.8), ("share: 0.5", 25.8), ("bytes: 1630", 10)):
        assert documents(f"{data}, sample: {{{sample}}}").mean == pytest.approx(expected)
    # Every third: 1, 4, 7 and the compressed one, of ten files.
    monkeypatch.setattr(work, "_LOOKED_AT", 4)
    assert documents(data).mean == pytest.approx((1 + 4 + 7 + 6.6) / 4 * 10)
    result = documents("/not/here, sample: {files: 2}", "corpus: {files: 10, bytes: 16300}\n")
    assert result.mean == pytest.approx(20)
    assert "inputs cannot be looked at: /not/here: no input file" in result.source
    # A manifest counts for its own inputs only.
    manifest = SimpleNamespace(documents=40, files=3)
    monkeypatch.setattr(work, "read_manifest", lambda path: (manifest, []))
    assert documents("/not/here").mean == 40
    for stored in ("{}", '{"inputs": {"paths": ["another"]}}', "["):
        (tmp_path / "study.json").write_text(stored)
        assert documents("/not/here", "corpus: {files: 1, bytes: 1630}\n").mean == 10


def test_one_host_and_the_workers_class(tmp_path):
    text = "workload: ycsb\nengines: [sqlite]\nphases: [load]\nembedded: one_host\n"
    (trial,) = load(tmp_path, text + "factors: {workers: [4]}\n").trials()
    assert hosts_of(trial, one_host=True) == {"work": 1}
    assert hosts_of(trial, one_host=False) == {"work": 4}
    (trial,) = load(tmp_path, f"{YCSB}]\nfactors: {{nodes: [2], node_class: [work]}}\n").trials()
    assert hosts_of(trial, one_host=True) == {"work": 3}


def test_a_probe_narrows_the_rate_of_its_own_engine_more_than_of_others():
    rate = Probe("sqlite", {"documents_per_s": 900, "operations_per_s": 50}).rate
    assert of(rate("sqlite", "write", "documents_per_s")) == (900, 450, 1800)
    assert of(rate("duckdb", "write", "documents_per_s")) == (900, 225, 3600)
    assert of(rate("sqlite", "read", "operations_per_s")) == (50, 25, 100)
    # A question is no read by id: nobody tried it out.
    assert of(rate("sqlite", "query", "operations_per_s")) == (2000, 500, 8000)
    assert of(Probe("", {}).rate("sqlite", "write", "documents_per_s")) == (4000, 1000, 16000)


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


def test_earlier_results_take_the_place_of_defaults(tmp_path, made):
    results = tmp_path / "s"
    shutil.copytree(made.study(**SCALED), results, ignore=shutil.ignore_patterns("trials"))
    (results / "analysis").mkdir()
    write_csv(made.measured(**SCALED).summary, results / "analysis" / "summary.csv")
    study = Study.model_validate_json((results / "study.json").read_text())
    for one in study.trials():
        (results / "trials" / one.id).mkdir(parents=True)
        name = "failed.json" if one.engine == "null" else "verify.parquet"
        (results / "trials" / one.id / name).touch()
    documents = documents_of(study, results)
    assert of(documents) == (synthetic.DOCUMENTS * 10 // synthetic.FILES * synthetic.FILES,) * 3
    assert "manifest" in documents.source
    trial = next(t for t in study.trials() if (t.engine, t.workers) == ("sqlite", 1))
    rate = Rates(results).of(trial, "write", "documents_per_s")
    assert rate.source == "measured" and rate.low < rate.mean < rate.high
    # From one worker on to the most that were measured.
    assert rate.low < 3 * synthetic.SPEEDS["sqlite"][0] < rate.mean
    # All of its trials have results or were given up; one is to be measured again.
    assert still_to_measure(study, results) == []
    (results / "trials" / trial.id / "verify.parquet").unlink()
    assert still_to_measure(study, results) == [trial]
    result = estimate(study, [trial], {}, results)
    assert result.measured == len(study.trials()) - 1


def test_above_its_limit_a_run_is_refused_with_the_estimate(tmp_path):
    study = load(tmp_path, f"{YCSB}]\n{PRICES}max_cost: 0.05\n")
    result = estimate(study, study.trials(), {}, tmp_path)
    with pytest.raises(TooExpensive) as error:
        refuse_above(result, study.max_cost)
    for words in ("study s", "(1 trials)", "0.12 (", "max_cost of 0.05 USD"):
        assert words in str(error.value)
    refuse_above(result, result.money.mean)
    refuse_above(result, None)
    refuse_above(estimate(study, [], {}, tmp_path), 0.001)
    # The hosts of a database that is there are not known.
    url = "{sql: {url: 'postgresql://u@h/d'}}"
    result = estimated(tmp_path, f"workload: ycsb\nphases: [load]\nengines: {url}\n")
    assert "the own hosts of sql" in dict(result.assumptions)["not counted"]
    assert [line.name for line in result.lines] == ["work"] and result.money is None
    refuse_above(result, 1.0)


@pytest.mark.parametrize(
    ("place", "gone"),
    [
        ("other/spot", ["other spot"]),
        ("onlyspot", ["onlyspot on demand"]),
        ("free/spot", []),
        ("big/spot", []),  # at most what one on demand costs
    ],
)
def test_a_limit_is_not_held_against_hosts_without_a_price(tmp_path, place, gone):
    prices = PRICES.replace("instances: {", "instances: {onlyspot: {spot: 1}, free: {spot: 0}, ")
    classes = parse_classes(f"data=data/{place}, work=work/small/spot")
    result = estimated(tmp_path, f"{YCSB}]\n{prices}", classes)
    assert result.unpriced == gone
    refuse_above(result, None)
    try:
        refuse_above(result, 1000)
    except TooExpensive as error:
        assert gone and f": {gone[0]}. Nothing" in str(error)
    else:
        assert not gone


def test_the_command_says_what_it_will_cost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    classes = "'data=d/big, work=w/small/spot'"
    Path("p.yaml").write_text(f'set-resources: {{node: {{node_classes: "{classes}"}}}}\n')
    Path("s.yaml").write_text(f"{YCSB}]\nmax_cost: 0.01\n{PRICES}")

    def cost(*options):
        return CliRunner().invoke(app, ["cost", "s.yaml", *options])

    done = cost("--profile", "p.yaml")
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "…" not in text, "nothing is cut to fit the terminal"
    for words in (
        "Study s: 1 trial to measure.",
        "work small spot",
        "above the study's max_cost of 0.01 USD",
    ):
        assert words in text
    message = json.loads(cost("--all", "--json").stdout)
    assert message["money"]["low"] < message["money"]["mean"] < message["money"]["high"]
    assert message["engines"][0]["engine"] == "postgres"
    assert "did you mean 'slurm'" in str(cost("--profile", "slrm").exception)
