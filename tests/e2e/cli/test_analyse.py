"""``storewise analyse`` as users call it: output, warnings, and one error per bad input."""

import json
import math

import numpy as np
import pytest
from support.results import synthetic
from typer.testing import CliRunner

from storewise.analysis.stats.anova import Specification
from storewise.analysis.stats.anova_groups import group_warnings, groups
from storewise.analysis.stats.csv_table import observations
from storewise.cli.main import app
from storewise.errors import AnalysisError, StorewiseError

PUBLISHED = "config/references/andor2019.csv"
ANDOR = ("--response", "runtime_ms", "--factors", "engine,client_threads")
ROWS = """engine,threads,run,ms
sqlite,1,1,10.5
sqlite,1,2,11
sqlite,2,1,7
sqlite,2,2,7.5
null,1,1,3
null,1,2,3.5
null,2,1,1
null,2,2,1.75
"""


def analyse(*arguments):
    return CliRunner().invoke(app, ["analyse", *map(str, arguments)])


def error_of(*arguments):
    result = analyse(*arguments)
    assert isinstance(result.exception, StorewiseError), (result.exception, result.output)
    assert result.stdout == ""
    return str(result.exception)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_json_is_the_list_of_the_contract_and_nothing_else():
    result = analyse(
        *("--table", PUBLISHED, *ANDOR, "--numeric", "client_threads", "--repeats", 3),
        *("--by", "workload,operations", "--format", "json"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == 8 * 4
    names = ["by", "term", "df", "sum_sq", "f", "p", "eta_sq_partial", "omega_sq"]
    assert all(list(row) == names for row in rows)
    assert rows[0]["by"] == {"workload": "A", "operations": 1000}
    assert [r["term"] for r in rows[:4]] == [
        *("engine", "client_threads", "engine:client_threads", "Residual")
    ]
    assert [r["f"] for r in rows[:3]] == pytest.approx([272.2, 3.88, 1.14], abs=0.05)
    assert rows[3]["df"] == 56
    assert rows[3]["f"] is rows[3]["p"] is rows[3]["eta_sq_partial"] is rows[3]["omega_sq"] is None
    # The warning names its remedy.
    assert "not normal in all groups" in result.stderr and "--log-response" in result.stderr


def test_pairs_beside_the_table(table):
    request = ("--table", table, "--response", "ms", "--factors", "engine,threads")
    result = analyse(*request, "--tukey", "threads", "--log-response", "--format", "json")
    outcome = json.loads(result.stdout)
    assert list(outcome) == ["variance", "tukey"]
    (pair,) = outcome["tukey"]
    assert (pair["factor"], pair["a"], pair["b"]) == ("threads", 1, 2)
    assert pair["ratio_low"] < pair["ratio"] < pair["ratio_high"]
    text = analyse(*request, "--tukey", "threads").stdout
    assert "Tukey HSD of threads" in text and "1 2     2.6875" in text


@pytest.mark.parametrize(
    "content",
    [
        ROWS.encode("utf-8-sig"),
        ROWS.replace("\n", "\r\n").encode(),
        ROWS.replace(",", ";").encode(),
        ROWS.replace(",", "\t").encode(),
        ROWS.replace(",", " , ").encode(),
        ROWS.replace("\n", "\n\n").encode(),
        ROWS.replace("sqlite", '"sqlite"').encode(),
        ROWS.rstrip("\n").encode(),
    ],
)
def test_csv_files_of_all_kinds_are_the_same(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    request = ("--response", "ms", "--factors", "engine,threads", "--format", "json")
    rows = json.loads(analyse("--table", path, *request).stdout)
    # SS of engine: (9 - 2.3125)^2 * 8 / 4
    assert rows[0]["sum_sq"] == pytest.approx(2 * (9 - 2.3125) ** 2)


def test_columns_have_the_types_of_their_cells(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("i,f,name,word,y\n1,1.5,a1,null,1\n2,2,a2,,2\n")
    frame = observations(table, "y", ["i"], by=["f", "name"])
    values = {name: frame[name].tolist() for name in ("i", "f", "name")}
    assert values == {"i": [1, 2], "f": [1.5, 2.0], "name": ["a1", "a2"]}
    assert [type(one[1]) for one in values.values()] == [int, float, str]
    with pytest.raises(AnalysisError, match=r"line 3: column 'word' is empty"):
        observations(table, "y", ["word"])


def test_names_with_commas_stand_in_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS.replace("engine", '"store, kind"').replace("threads", "class"))
    request = ("--response", "ms", "--factors", '"store, kind",class', "--format", "json")
    rows = json.loads(analyse(path, *request).stdout)
    assert [r["term"] for r in rows] == [*("store, kind", "class", "store, kind:class", "Residual")]


def lines(**cells):
    """The table with other cells: lineN=..."""
    result = ROWS.splitlines()
    for line, text in cells.items():
        result[int(line.removeprefix("line")) - 1] = text
    return "\n".join(result) + "\n"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            b"engine,ms\n\xff,1\n",
            {},
            "table in UTF-8: 'utf-8' codec can't decode",
        ),
        ("", {}, "in UTF-8: No columns to parse"),
        ("engine,threads,ms\n", {}, "has a heading but no rows"),
        ("engine,,ms\na,b,1\n", {}, "line 1: a column has no name"),
        ("engine,ms,ms\na,b,1\n", {}, "line 1: two columns are called 'ms'"),
        (lines(line3="sqlite,1,2"), {}, "line 3: column 'ms' is empty"),
        (lines(line9='null,2,2,"1.75'), {}, "in UTF-8: Error tokenizing data"),
        (ROWS, {"response": "mss"}, "--response: there is no column 'mss' (did you mean 'ms'?)"),
        (ROWS, {"factors": "engine,thread"}, "--factors: there is no column 'thread' (did you"),
        (ROWS, {"by": "runs"}, "--by: there is no column 'runs' (did you mean 'run'?)"),
        (lines(line4="sqlite,2,1,fast"), {}, "line 4: column 'ms' must be a number; found 'fast'"),
        (lines(line4='sqlite,2,1,"7,5"'), {}, "numbers have a decimal point, no comma"),
        (lines(line4="sqlite,2,1,nan"), {}, "line 4: column 'ms' must be a number; found 'nan'"),
        (lines(line4="sqlite,2,1,", line6=",1,1,3"), {}, "line 4: column 'ms' is empty"),
        (
            lines(line5=",2,2,7.5", line6=",1,1,3"),
            {},
            "line 5 and 1 more: column 'engine'",
        ),
        (lines(line4="sqlite,2,1,0"), {"log": True}, "ms: 1 values of 0 or less have no logarithm"),
        (ROWS, {"numeric": "engine"}, "column 'engine' must be a number; found 'sqlite'"),
        (ROWS, {"numeric": "run"}, "--numeric: 'run' is none of the --factors"),
        (ROWS, {"by": "engine"}, "--factors: column 'engine' is named twice"),
        (ROWS, {"factors": "engine,ms"}, "--response: column 'ms' is named twice"),
        (ROWS, {"factors": "engine,engine"}, "--factors: column 'engine' is named twice"),
        (ROWS, {"factors": "engine,,run"}, "a name in this list is empty"),
        (
            ROWS,
            {"factors": "threads", "by": "engine,threads"},
            "column 'threads' is named twice",
        ),
        (ROWS, {"phase": "read"}, "--phase is for a study's results"),
        (ROWS, {"factors": None}, "needs --response COLUMN and --factors A,B"),
    ],
)
def test_bad_input_is_one_clear_error(tmp_path, content, options, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    request = {"response": "ms", "factors": "engine,threads", **options}
    flags = {"log": "--log-response", "robust": "--robust"}
    arguments = ["--table", path]
    for name, value in request.items():
        if name in flags:
            arguments.append(flags[name])
        elif value is not None:
            arguments += [f"--{name}", value]
    text = error_of(*arguments)
    assert message in text
    assert str(path) in text or text.startswith(("--", "'"))


def test_groups_that_cannot_be_analysed_do_not_stop_the_others(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS + "duckdb,1,1,5\nfiles,1,1,5\nlmdb,1,1,5\nlmdb,2,1,5\n")
    request = ("--response", "ms", "--factors", "threads", "--by", "engine")
    result = analyse(path, *request, "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["by"]["engine"] for row in rows] == ["null", "null", "sqlite", "sqlite"]
    one, equal = [line for line in result.stderr.splitlines() if "no analysis" in line]
    assert "of engine=duckdb; engine=files: ms has one value in 1 rows; nothing varies" in one
    assert "of engine=lmdb: ms has one value in 2 rows" in equal


def test_checks_of_the_tables_are_adjusted_as_in_the_studys_own_warning(tmp_path):
    """40 groups with normal residuals: one in 20 would else be called doubtful."""
    rng = np.random.default_rng(5)
    rows = ["g,t,y"]
    for group in range(40):
        rows += [f"{group},{t},{5 + t + rng.normal():.9f}" for t in (0, 1) for _ in range(12)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    request = ("--response", "y", "--factors", "t")
    frame = observations(path, "y", ["t"], by=["g"])
    result = groups(frame, ["g"], Specification("y", ("t",))).groups
    assert any("not normal" in str(group_warnings([group])) for group in result), "each alone"
    assert "not normal" not in analyse(path, *request, "--by", "g").stderr
    # A group that is not normal by far is still named.
    rows += [f"x,{t},{math.exp(3 * rng.normal()):.9f}" for t in (0, 1) for _ in range(12)]
    path.write_text("\n".join(rows) + "\n")
    assert "not normal in 1 of 41 groups (g=x)" in analyse(path, *request, "--by", "g").stderr


def test_files_that_are_not_there(tmp_path, table):
    missing = tmp_path / "no.csv"
    request = ("--response", "ms", "--factors", "engine")
    assert f"{missing}: cannot be read as a CSV table in UTF-8: No such file" in error_of(
        "--table", missing, *request
    )
    assert "there are no results of a study" in error_of(missing)
    assert "not both" in error_of(table, "--table", table, *request)


def test_a_study_gets_its_tables_and_its_finding(tmp_path):
    study = tmp_path / "demo"
    synthetic.make_study(study, engines=["sqlite", "duckdb"])
    result = analyse(study, "--response", "operations_per_s", "--tukey", "engine")
    assert result.exit_code == 0, result.output
    assert "SQLite" in result.stdout.splitlines()[0]
    assert "log(operations_per_s), 8 rows" in result.stdout
    assert "duckdb sqlite    -2.5" in result.stdout
    assert (study / "analysis" / "variance.csv").read_text().startswith("phase,step,measure,")
    rows = json.loads(analyse(study, "--phase", "read", "--format", "json").stdout)
    assert {row["by"]["phase"] for row in rows} == {"read"}
    assert "--repeats is for tables" in error_of(study, "--repeats", 3)
