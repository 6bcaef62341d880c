"""Studies that varied more than the store: the verdict compares like with like."""

from dataclasses import replace

import pytest
from support.results.made import GROUP

from storewise.analysis.measure.summary import summarise
from storewise.analysis.verdict.decision import verdict

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    """SQLite and DuckDB, which are equal, at two levels of what a test calls them."""
    tables = made.measured(engines=["sqlite", "duckdb"], workers=[1, 2], repeats=3)
    names = ["phase", "step", "operation", "measure"]
    means = tables.measures.groupby(names, observed=True)["value"].transform("mean")
    noise = 1 + 0.01 * tables.measures["trial"].map(
        dict(zip(tables.trials["trial"], tables.trials["repeat"], strict=True))
    )
    return replace(tables, measures=tables.measures.assign(value=means * noise))


def judged(tables, factor, levels, times):
    """The verdict where `workers` 1 and 2 are two levels of another factor. `times` is how many
    times as fast: (engine, level, criterion) -> number."""
    level_of = dict(zip((1, 2), levels, strict=True))
    trials = tables.trials.assign(**{factor: tables.trials["workers"].map(level_of)})
    trials = trials.assign(workers=1)
    factors = tuple(dict.fromkeys([*tables.results.factors, factor]))
    results = replace(tables.results, trials=trials, factors=factors, study={})
    measures = tables.measures.merge(trials[["trial", "engine", factor]], on="trial")
    for (engine, level, measure), number in times.items():
        faster = (measures["engine"] == engine) & (measures[factor] == level)
        faster &= measures["measure"] == measure
        measures.loc[faster, "value"] *= number
    measures = measures.drop(columns=["engine", factor])
    made = replace(tables, trials=trials, results=results, measures=measures, judged={})
    return verdict(replace(made, summary=summarise(measures, results)))


LOAD, READ = "documents_per_s", "operations_per_s"


def test_stores_are_compared_at_the_largest_volume_that_all_have(tables):
    # At a tenth of the data SQLite is faster than DuckDB with all of it, where it is slower.
    times = {("sqlite", 0.1, m): 10.0 for m in (LOAD, READ)}
    times |= {("duckdb", 1.0, m): 2.0 for m in (LOAD, READ)}
    found = judged(tables, "volume", (1.0, 0.1), times)
    assert found.decision.sentence == "Take DuckDB."
    assert "Stores are judged at volume 1." in found.text


@pytest.mark.parametrize(
    ("factor", "levels"),
    [
        ("nodes", (1, 3)),
        ("replicas", (1, 3)),
        ("index", ("none", "align.gene")),
        ("consistency", ("durable", "majority")),
    ],
)
def test_a_store_has_one_deployment_for_all_criteria(tables, factor, levels):
    # SQLite loads fast in one deployment and answers fast in the other; nobody has both at once.
    one, other = levels
    times = {("sqlite", one, LOAD): 8.0, ("sqlite", other, READ): 8.0}
    times |= {("sqlite", one, READ): 0.1, ("sqlite", other, LOAD): 0.1}
    times |= {("duckdb", level, m): 2.0 for level in levels for m in (LOAD, READ)}
    found = judged(tables, factor, levels, times)
    assert found.decision.sentence.startswith("Take DuckDB")
    for criterion in found.criteria:
        standing = criterion.of("SQLite")
        deployment = found.decision.table.loc["SQLite", "deployment"]
        assert standing is None or deployment in standing.where
