"""`storewise compare`: what differs between two studies, and what a limit makes of it."""

import csv
import errno
import io
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from support.results import synthetic
from support.results.synthetic import make_failed, make_inputs, make_trial, resolved

from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.cli import compare as compare_cli
from storewise.cli.main import main
from storewise.compare.compare import By, Selection, compare
from storewise.compare.gate import gate
from storewise.compare.render import print_text
from storewise.study.study import Study

#: Loads of the repeats relative to the engine's usual speed: alike, and far apart.
TIGHT, WIDE = (0.995, 1.0, 1.005), (0.75, 1.0, 1.333)
LOAD = "documents_per_s"


def study(path, loads=TIGHT, *, of=1.0, engines=("sqlite", "duckdb"), workers=(1,), **options):
    """Results whose loads go at given speeds, one per repeat, `of` times as fast."""
    make_inputs(path)
    message = resolved(engines, workers, len(loads))
    (path / "study.json").write_text(json.dumps(message), encoding="utf-8")
    for trial in Study.model_validate(message).trials():
        load = loads[trial.repeat - 1] * of
        make_trial(path, trial.factors, trial.repeat, noise=0.0, scale=load, **options)
    return path


@cache
def tables(path):
    return measured_tables(load_results(path))


def elsewhere(known):
    return replace(known, results=replace(known.results, directory=Path("/elsewhere")))


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "before")


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "slower", of=0.8)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "wide", WIDE, of=0.8)


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results") / "c", (1.0,), engines=("parquet", "null"))


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


def levels(path, engine):
    message = json.loads((path / "study.json").read_text())
    trials = Study.model_validate(message).trials()
    return dict(next(trial.factors for trial in trials if trial.engine == engine))


def test_equal_studies_show_no_difference(before):
    result = compare(tables(before), elsewhere(tables(before)))
    assert set(result.figures["verdict"]) == {"no difference shown"}
    assert result.figures["ratio"].to_list() == pytest.approx([1.0] * len(result.figures))
    assert result.only.empty
    assert result.differences == []
    limit = gate(result, 0.1)
    assert limit.slower.empty
    assert limit.held >= (result.figures["kind"] == "rate").sum()


def test_a_load_that_is_slower_by_a_fifth_is_said_to_be(before, slower):
    result = compare(tables(before), tables(slower))
    loads = result.figures[result.figures["measure"].isin([LOAD, "insert_documents_per_s"])]
    assert loads["ratio"].to_list() == pytest.approx([0.8] * 4, rel=0.01)
    assert set(loads["verdict"]) == {"slower"}
    sizes = result.figures[result.figures["kind"] == "size"]
    assert sizes["ratio"].to_list() == [1.0, 1.0]
    assert set(sizes["verdict"]) == {"no difference shown"}
    back = compare(tables(slower), tables(before), Selection(measures=(LOAD,)))
    assert set(back.figures["verdict"]) == {"faster"}


def test_a_load_that_spreads_is_not_called_slower(before, wide):
    result = compare(tables(before), tables(wide), Selection(measures=(LOAD,)))
    loads = result.figures[result.figures["measure"] == LOAD]
    assert loads["ratio"].to_list() == pytest.approx([0.8] * 2, rel=0.01)
    assert set(loads["verdict"]) == {"no difference shown"}
    limit = gate(result, 0.1)
    assert limit.slower.empty
    assert set(limit.unsure["reason"]) == {"its interval does not lie on one side of the limit"}
    assert (limit.fails(strict=False), limit.fails(strict=True)) == (False, True)


def test_single_runs_carry_no_difference_but_sizes_do(tmp_path, monkeypatch):
    one = study(tmp_path / "a", (1.0,), read_seconds=20.0)
    write, read, size = synthetic.SPEEDS["sqlite"]
    monkeypatch.setitem(synthetic.SPEEDS, "sqlite", (write / 3, read / 3, 2 * size))
    result = compare(tables(one), tables(study(tmp_path / "b", (1.0,), read_seconds=20.0)))
    rows = result.figures[result.figures["engine"] == "sqlite"].set_index("measure")
    assert rows.loc["operations_per_s", "ratio"] == pytest.approx(1 / 3, rel=0.01)
    assert rows.loc["operations_per_s", "verdict"] == "no difference shown"
    assert rows.loc["operations_per_s", "why"] == "one run alone has no interval"
    assert rows.loc["bytes_per_document", "verdict"] == "larger"
    assert rows.loc["bytes_per_document", "ratio"] == pytest.approx(2)
    limit = gate(result, 0.1)
    assert (len(limit.slower), limit.held) == (0, 0)


def test_a_steady_part_is_not_set_against_a_whole_phase(before, tmp_path):
    short = study(tmp_path / "short", read_seconds=3.0)
    result = compare(tables(before), tables(short), Selection(phases=("read",)))
    rates = result.figures[result.figures["measure"] == "operations_per_s"]
    assert set(rates["why"]) == {"A is of the steady part, B of the whole phase"}


def test_what_one_has_only_is_listed_with_the_reason(before, tmp_path):
    other = study(tmp_path / "other", engines=("sqlite", "parquet"))
    make_failed(other, levels(before, "duckdb"), 1, "its disk was full")
    result = compare(tables(before), tables(other))
    assert set(result.figures["engine"]) == {"sqlite"}
    message = result.only.groupby(["side", "engine"])["why"].first().to_dict()
    assert message == {("A", "duckdb"): "failed in B: its disk was full", ("B", "parquet"): ""}
    # What B lost cannot be told to be fast enough.
    limit = gate(result, 0.1)
    lost = limit.unsure[limit.unsure["engine"] == "duckdb"]
    assert set(lost["measure"]) >= {LOAD, "operations_per_s"}
    assert set(lost["reason"]) == {"failed in B: its disk was full"}
    assert limit.fails(strict=True)


def test_levels_across(before, tmp_path):
    result = compare(
        tables(before), tables(before), Selection(by=(By("engine", "sqlite", "duckdb"),))
    )
    loads = result.figures[result.figures["measure"] == LOAD]
    assert loads["ratio"].to_list() == pytest.approx([32 / 21], rel=0.01)
    assert loads["verdict"].to_list() == ["faster"]
    # A factor that has one level in each is what is compared, without a word.
    two = study(tmp_path / "two", workers=(2,))
    result = compare(tables(before), tables(two), Selection(measures=(LOAD,)))
    found = [(d.what, d.a, d.b) for d in result.differences]
    assert found == [("factor workers", "1", "2"), ("factors.workers", "[1]", "[2]")]


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
    result = compare(tables(before), tables(after))
    assert {(d.what, d.a, d.b) for d in result.differences} == {
        ("phases.write.params.batch_size", "1000", "500"),
        ("seed", "7", "8"),
        ("version of sqlite.engine", "3.40.1", "3.50.0"),
        ("host: name", "node-7", "node-8"),
    }


def test_machines_that_were_not_equally_fast_come_first(before, slower):
    canary = tables(before).canary.copy()
    canary.loc[canary["metric"] == "canary_cpu", "value"] *= 0.5
    again = replace(elsewhere(tables(before)), canary=canary)
    out = io.StringIO()
    print_text(compare(tables(before), again), None, Console(file=out, width=80))
    assert " ".join(out.getvalue().split()).startswith("B's machine was 2.00 times slower than A's")
    assert compare(again, tables(before)).machines.startswith("B's machine was 2.00 times faster")
    # The same machine needs no word.
    assert compare(tables(before), tables(slower)).machines == ""


def test_one_page_for_people_asks_for_nothing_and_runs_nothing(run, before, slower, tmp_path):
    out = tmp_path / "c.html"
    run(before, slower, "--html", out, "--fail-if-slower", "10%")
    page = out.read_text(encoding="utf-8")
    assert "4 slower by more than 10 %" in page
    assert page.count("<tr>") > 10
    assert not re.findall(r"<script|src=|href=\"(?!data:)", page)
    status, _, err = run(before, slower, "--html", tmp_path / "no" / "c.html")
    assert (status, "cannot be written" in err) == (2, True)


def test_narrow_terminals_cost_no_digit(before, slower):
    result = compare(tables(before), tables(slower))
    narrow, wide = io.StringIO(), io.StringIO()
    print_text(result, None, Console(file=narrow, width=20))
    print_text(result, None, Console(file=wide, width=200))
    cells = re.findall(r"[0-9][0-9.,]*(?: [mµ]?s)?", wide.getvalue().partition("figures: ")[0])
    assert len(cells) > 50
    assert [cell for cell in cells if cell not in narrow.getvalue()] == []


def test_what_a_study_lacks_is_said_beside_its_figures(before, tmp_path):
    other = study(tmp_path / "other")
    trials = sorted((other / "trials").iterdir())
    shutil.rmtree(trials[0])
    (trials[1] / "read.0.parquet").write_text("junk")
    result = compare(tables(before), tables(other))
    notes = "\n".join(result.notes)
    assert f"B, warning missing_trials: 1 of {len(trials)} trials" in notes
    assert f"B, warning unreadable_part: {trials[1].name}: " in notes
    assert "A, warning" not in notes


def test_exit_statuses(run, before, slower, wide):
    assert run(before, slower)[0] == 0
    status, out, _ = run(before, slower, "--fail-if-slower", "10%")
    assert status == 1
    assert "Slower by more than 10 %: duckdb, write, documents_per_s: B/A 0.80" in out
    assert run(before, slower, "--fail-if-slower", "25%")[0] == 0
    # What has not changed is shown not to be slower.
    read = ("--fail-if-slower", "10%", "--measure", "operations_per_s", "--strict")
    assert run(before, slower, *read)[0] == 0
    loads = ("--fail-if-slower", "10%", "--measure", LOAD)
    status, out, err = run(before, wide, *loads)
    assert (status, "cannot be told" in err) == (0, True)
    assert "Cannot be told whether slower by more than 10 %" in out
    assert run(before, wide, *loads, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["B", "--fail-if-slower", "ten"], "expected a percentage"),
        (["B", "--fail-if-slower", "100%"], "expected a percentage"),
        (["B", "--strict"], "--strict is for --fail-if-slower"),
        (["nowhere"], "there are no results of a study"),
        (["A"], "are the same directory"),
        (["B", "--by", "engine"], "expected FACTOR=LEVEL_A:LEVEL_B"),
        (["B", "--by", "engin=sqlite:duckdb"], "did you mean 'engine'?"),
        (["B", "--by", "engine=sqlit:duckdb"], "did you mean 'sqlite'?"),
        (["B", "--measure", "p98"], "neither A nor B has a measure 'p98'"),
        (["B", "--phase", "red"], "did you mean 'read'?"),
        (["C"], "factor engine is duckdb, sqlite in A and null, parquet in B"),
        (["B", "--measure", "bytes_per_document", "--fail-if-slower", "5%"], "no rate and no time"),
    ],
)
def test_errors_of_use(run, before, slower, apart, arguments, words):
    names = {"A": before, "B": slower, "C": apart}
    status, out, err = run(before, *(names.get(one, one) for one in arguments))
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("storewise:") == 1


def test_output_for_people_programs_and_tables(run, before, slower):
    _, out, _ = run(before.name, slower, "--results", before.parent)
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    _, out, err = run(before, slower, "--format", "json", "--fail-if-slower", "10%")
    message = json.loads(out)
    assert {row["verdict"] for row in message["gate"]["slower"]} == {"slower"}
    assert "4 slower by more than 10 %" in err
    _, out, _ = run(before, slower, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(message["figures"])
    assert {row["verdict"] for row in rows} == {"slower", "no difference shown"}


def test_a_full_disk_is_not_the_status_of_what_is_slower(run, before, slower, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("storewise.compare.render.print_text", full)
    status, _, err = run(before, slower, "--fail-if-slower", "10%")
    assert status == 2
    assert "No space left on device; make room there" in err
