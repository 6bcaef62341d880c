"""`storewise compare`: what differs between old and new, and what a limit makes of it."""

import errno
import io
import json
import os
import re
import sys
from functools import cache

import pytest
from rich.console import Console
from support.results import synthetic
from support.results.synthetic import make_failed, make_inputs, make_trial, resolved

from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.cli import compare as compare_cli
from storewise.cli.main import main
from storewise.compare.compare import Selection, compare_levels, compare_studies
from storewise.compare.gate import gate
from storewise.compare.render import print_text
from storewise.study.study import Study

LOAD = "documents_per_s"
#: Speeds of the rounds.
ROUNDS = (0.995, 1.0, 1.005)
EVERYTHING = Selection()


def study(path, *, of=1.0, engines=("sqlite", "duckdb"), workers=(1,), rounds=ROUNDS, **options):
    """Results `of` times as fast; two workers load 0.8 times as fast as one."""
    make_inputs(path)
    message = resolved(engines, workers, len(rounds))
    (path / "study.json").write_text(json.dumps(message), encoding="utf-8")
    for trial in Study.model_validate(message).trials():
        speed = rounds[trial.repeat - 1] * of * (0.4595 if trial.workers == 2 else 1)
        make_trial(path, trial.factors, trial.repeat, noise=0.0, scale=speed, **options)
    return path


@cache
def tables(path):
    return measured_tables(load_results(path))


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "before")


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "slower", of=0.8)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One study with one worker and two."""
    return study(tmp_path_factory.mktemp("results") / "both", workers=(1, 2))


@pytest.fixture
def run(monkeypatch, capsys):
    """The command: its exit status, standard output and standard error. What it reads is kept."""
    monkeypatch.setattr(compare_cli, "_tables", tables)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["storewise", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_two_levels_of_one_study_are_told_apart(both):
    result = compare_levels(tables(both), "workers", ("1", "2"), EVERYTHING)
    assert set(result.figures["basis"]) == {"same rounds", "counted"}
    loads = result.figures[result.figures["measure"] == LOAD]
    assert loads["ratio"].to_list() == pytest.approx([0.8] * 2, rel=0.01)
    assert set(loads["answer"]) == {"slower"}
    assert result.only.empty
    limit = gate(result, 0.1)
    assert set(limit.slower["measure"]) >= {LOAD}
    back = compare_levels(tables(both), "workers", ("2", "1"), Selection(measures=[LOAD]))
    assert back.figures["answer"].to_list() == ["faster"] * 2


def test_a_level_that_was_added_later_is_of_another_day(tmp_path, monkeypatch):
    conditions = synthetic.conditions

    def of_runs(engine, factors, *rest, **named):
        run = {1: "first", 2: "second"}[factors["workers"]]
        return {**conditions(engine, factors, *rest, **named), "run": run}

    monkeypatch.setattr(synthetic, "conditions", of_runs)
    later = tables(study(tmp_path / "later", workers=(1, 2)))
    result = compare_levels(later, "workers", ("1", "2"), Selection(measures=[LOAD]))
    assert (
        result.figures[["basis", "answer"]].to_numpy().tolist()
        == [["different days", "cannot be told"]] * 2
    )


def test_of_two_days_only_counts_are_told(before, tmp_path, monkeypatch):
    write, read, size = synthetic.SPEEDS["sqlite"]
    monkeypatch.setitem(synthetic.SPEEDS, "sqlite", (write / 3, read / 3, 2 * size))
    result = compare_studies(tables(before), tables(study(tmp_path / "after")), EVERYTHING)
    rows = result.figures[result.figures["engine"] == "sqlite"].set_index("measure")
    assert rows.loc[LOAD, "ratio"] == pytest.approx(1 / 3, rel=0.01)
    assert (rows.loc[LOAD, "basis"], rows.loc[LOAD, "answer"]) == (
        "different days",
        "cannot be told",
    )
    assert rows.loc["bytes_per_document", "ratio"] == pytest.approx(2)
    assert rows.loc["bytes_per_document", "answer"] == "larger"
    limit = gate(result, 0.1)
    assert (len(limit.slower), limit.held) == (0, 0)
    assert "different days: the machine may be the reason" in set(limit.unsure["reason"])


def test_settings_that_are_unchanged_tell_what_the_day_did(tmp_path):
    engines = ("sqlite", "parquet", "postgres", "mariadb", "duckdb")
    old, new = (tmp_path / name for name in ("old", "new"))
    study(old, engines=engines)
    write, read, size = synthetic.SPEEDS["duckdb"]
    with pytest.MonkeyPatch.context() as changed:
        changed.setitem(synthetic.SPEEDS, "duckdb", (write / 2, read, size))
        study(new, engines=engines, of=1.3)
    selection = Selection(measures=[LOAD], unchanged=engines[:4])
    result = compare_studies(tables(old), tables(new), selection)
    assert result.figures["engine"].to_list() == ["duckdb"]
    assert result.figures["ratio"].to_list() == pytest.approx([0.5], rel=0.02)
    assert result.figures[["basis", "answer"]].to_numpy().tolist() == [["controls", "slower"]]


def test_what_one_has_only_is_listed(before, tmp_path):
    other = study(tmp_path / "other", engines=("sqlite", "parquet"))
    trials = Study.model_validate(json.loads((before / "study.json").read_text())).trials()
    make_failed(other, next(dict(t.factors) for t in trials if t.engine == "duckdb"), 1, "full")
    result = compare_studies(tables(before), tables(other), EVERYTHING)
    assert set(result.figures["engine"]) == {"sqlite"}
    only = result.only.groupby("side")["engine"].unique().map(list).to_dict()
    assert only == {"old": ["duckdb"], "new": ["parquet"]}
    # What new lost cannot be told to be fast enough.
    limit = gate(result, 0.1)
    assert set(limit.unsure.loc[limit.unsure["engine"] == "duckdb", "reason"]) == {
        "old has it only"
    }


def test_a_factor_with_one_level_on_each_side_is_what_is_compared(before, tmp_path):
    two = study(tmp_path / "two", workers=(2,))
    result = compare_studies(tables(before), tables(two), Selection(measures=[LOAD]))
    assert "workers" not in result.factors
    assert result.differences == [("factors", "workers: 1", "workers: 2")]


def test_config_and_conditions_that_differ(before, tmp_path, monkeypatch):
    conditions = synthetic.conditions

    def newer(*arguments, **named):
        result = conditions(*arguments, **named)
        versions = {**result["versions"], "sqlite.engine": "3.50.0"}
        return {**result, "versions": versions, "host": {**result["host"], "name": "node-8"}}

    monkeypatch.setattr(synthetic, "conditions", newer)
    after = study(tmp_path / "after")
    message = json.loads((after / "study.json").read_text())
    message["phases"][0]["params"]["batch_size"] = 500
    message |= {"seed": 8, "name": "other"}
    (after / "study.json").write_text(json.dumps(message))
    result = compare_studies(tables(before), tables(after), EVERYTHING)
    found = {term: (old, new) for term, old, new in result.differences}
    assert set(found) == {"phases", "seed", "versions", "hosts"}
    assert found["seed"] == ("7", "8")
    assert found["versions"] == ("sqlite.engine 3.40.1", "sqlite.engine 3.50.0")
    assert "batch_size 500" in found["phases"][1] and "node-8" in found["hosts"][1]


def test_how_fast_the_machines_were_comes_first(run, before, slower):
    _, out, _ = run(before, slower)
    assert out.startswith("New's processor was 1.00 times as fast as old's.")
    assert "Different days: the machine may be the reason" in out
    assert "--interleave" in out


def test_narrow_terminals_cost_no_digit(both):
    result = compare_levels(tables(both), "workers", ("1", "2"), EVERYTHING)
    narrow, wide = io.StringIO(), io.StringIO()
    print_text(result, None, Console(file=narrow, width=20))
    print_text(result, None, Console(file=wide, width=200))
    cells = re.findall(r"[0-9][0-9.,]*(?: [mµ]?s)?", wide.getvalue().partition("figures: ")[0])
    assert len(cells) > 40
    assert [cell for cell in cells if cell not in narrow.getvalue()] == []


def test_exit_statuses(run, before, slower, both):
    gated = ("--by", "workers=1:2", "--fail-if-slower")
    status, out, _ = run(both, *gated, "10%")
    assert status == 1
    assert "Slower by more than 10 %: engine duckdb, write: documents_per_s: new/old 0.80" in out
    assert run(both, *gated, "25%", "--measure", LOAD, "--strict")[0] == 0
    status, out, _ = run(before, slower, "--fail-if-slower", "10%")
    assert status == 0
    assert "Cannot be told whether slower by more than 10 %" in out
    assert run(before, slower, "--fail-if-slower", "10%", "--strict")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["A"], "name two studies, or one with --by"),
        (["A", "B", "--by", "engine=sqlite:duckdb"], "name two studies, or one with --by"),
        (["A", "B", "--fail-if-slower", "ten"], "expected a percentage"),
        (["A", "B", "--strict"], "--strict is for --fail-if-slower"),
        (["A", "B", "--interleave", "x.yaml"], "--interleave is for one study"),
        (["A", "nowhere"], "there are no results of a study"),
        (["A", "A"], "are the same directory"),
        (["A", "--by", "engine"], "expected FACTOR=OLD:NEW"),
        (["A", "--by", "engin=sqlite:duckdb"], "did you mean 'engine'?"),
        (["A", "--by", "engine=sqlit:duckdb"], "did you mean 'sqlite'?"),
        (["A", "B", "--measure", "p98"], "there is no measure 'p98'"),
        (["A", "B", "--phase", "red"], "did you mean 'read'?"),
        (["A", "B", "--unchanged", "sqlit"], "did you mean 'sqlite'?"),
        (["A", "C"], "no figure of the same setting (engine"),
        (
            ["A", "B", "--measure", "bytes_per_document", "--fail-if-slower", "5%"],
            "no rate and no time",
        ),
    ],
)
def test_errors_of_use(run, before, slower, tmp_path, arguments, words):
    names = {"A": before, "B": slower}
    if "C" in arguments:
        names["C"] = study(tmp_path / "c", engines=("parquet", "null"), rounds=(1.0,))
    status, out, err = run(*(names.get(one, one) for one in arguments))
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
    assert err.count("storewise:") == 1


def test_output_for_people_and_programs(run, both):
    by = ("--by", "workers=1:2")
    _, out, _ = run(both.name, *by, "--results", both.parent)
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    _, out, err = run(both, *by, "--format", "json", "--fail-if-slower", "10%")
    message = json.loads(out)
    assert {row["answer"] for row in message["gate"]["slower"]} == {"slower"}
    assert "2 slower by more than 10 %" in err


def test_a_full_disk_is_not_the_status_of_what_is_slower(run, before, slower, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("storewise.compare.render.print_text", full)
    status, _, err = run(before, slower, "--fail-if-slower", "10%")
    assert status == 2
    assert "No space left on device; make room there" in err
