"""The first screen's times, what pays, and who may write from many clients."""

from dataclasses import replace

import pytest
from support.results.made import GROUP, SCALED, only

from storewise.analysis.verdict.asked import LOAD, SIZE, asked
from storewise.analysis.verdict.decision import verdict
from storewise.figures.verdict_chart import verdict_chart

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    return made.tables(**SCALED)


def test_columns_are_times_of_answers_then_load_and_size(tables):
    columns = asked(tables)
    assert [one.name for one in columns] == ["get", LOAD, SIZE]
    judged = verdict(tables)
    look_up, load, size = judged.asked
    assert look_up.weight == load.weight > 0
    times = tables.summary
    for standing in look_up.stores:
        row = times.iloc[int(standing.source_row)]
        assert (row["operation"], row["measure"]) == ("get", "service_p50")
        assert standing.estimate.mean == row["mean"]
        # With the fewest clients of all.
        assert row["workers"] == times["workers"].min()
    assert (look_up.unit, load.unit, size.unit) == ("s", "s", "B")
    chart = verdict_chart(tables, judged)
    assert [column.name for column in chart.columns][:3] == ["look up", "load", "size"]
    assert all(one.runs.endswith("runs") for row in chart.rows for one in row.cells[:2])


@pytest.mark.parametrize("count", [1, 9, 10])
def test_one_slow_answer_is_a_number_and_a_ratio_of_few_is_hatched(tables, count):
    times = tables.summary
    few = times.assign(count=times["count"].where(times["engine"] != "postgres", count))
    changed = replace(tables, summary=few)
    chart = verdict_chart(changed, verdict(changed))
    row = next(row for row in chart.rows if row.name == "PostgreSQL")
    assert row.cells[0].text.endswith("s") and row.cells[0].length > 0
    assert row.cells[0].runs == f"{count} run{'s' if count > 1 else ''}"
    assert row.cells[0].few == (count < 10)


def test_many_clients_are_only_spoken_of_where_several_wrote(tables):
    uses = {one.use.key: one for one in verdict(tables).answer.uses}
    assert "SQLite" not in uses["write"].stores or uses["write"].apart == ("SQLite",)
    alone = verdict(only(tables, workers=[1], processes=[1], threads=[1])).answer.uses
    assert "write" not in {one.use.key for one in alone}


def test_the_header_says_how_much_was_measured_and_what_was_not(made):
    tables = made.tables(**SCALED)
    lacking = replace(tables, results=replace(tables.results, lacking=3))
    chart = verdict_chart(lacking, verdict(lacking))
    n = len(tables.trials)
    assert chart.facts[-1].startswith(f"{n} of {n + 3} trials, ")
    assert ("3 trials not measured yet", "warnings") in chart.left_out
