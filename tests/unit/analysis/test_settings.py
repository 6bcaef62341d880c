"""Studies that varied more than the store: the verdict compares like with like."""

import itertools
from dataclasses import replace

import pytest
from support.results.made import GROUP

from storewise.analysis.measure.summary import summarise
from storewise.analysis.verdict.decision import verdict

pytestmark = GROUP
LOAD, READ = "documents_per_s", "operations_per_s"


@pytest.mark.parametrize(
    ("factor", "levels"),
    [
        ("volume", (0.1, 1.0)),
        ("nodes", (1, 3)),
        ("replicas", (1, 3)),
        ("index", ("none", "align.gene")),
        ("consistency", ("durable", "majority")),
    ],
)
def test_a_store_is_judged_at_one_level_of_all_but_its_clients(made, factor, levels):
    """SQLite loads fast at one level and answers fast at the other; nobody has both at once."""
    tables = made.measured(engines=["sqlite", "duckdb"], workers=[1, 2], repeats=3)
    level_of = dict(zip((1, 2), levels, strict=True))
    trials = tables.trials.assign(**{factor: tables.trials["workers"].map(level_of)}, workers=1)
    factors = tuple(dict.fromkeys([*tables.results.factors, factor]))
    results = replace(tables.results, trials=trials, factors=factors, study={})
    # Engines are equal but for what `times` says, and so are rounds but for a per cent.
    one, other = levels
    times = {("sqlite", one, LOAD): 8.0, ("sqlite", other, READ): 8.0}
    times |= {("sqlite", one, READ): 0.1, ("sqlite", other, LOAD): 0.1}
    times |= {("duckdb", level, m): 2.0 for level, m in itertools.product(levels, (LOAD, READ))}
    rows = tables.measures.merge(trials[["trial", "repeat", "engine", factor]], on="trial")
    names = ["phase", "step", "operation", "measure"]
    means = rows.groupby(names, observed=True)["value"].transform("mean")
    keys = zip(rows["engine"], rows[factor], rows["measure"], strict=True)
    value = means * (1 + 0.01 * rows["repeat"]) * [times.get(key, 1.0) for key in keys]
    measures = rows.assign(value=value)[list(tables.measures)]
    made_up = replace(tables, trials=trials, results=results, measures=measures, judged={})
    found = verdict(replace(made_up, summary=summarise(measures, results)))
    assert found.decision.sentence.startswith("Take DuckDB")
    assert ("Stores are judged at volume 1." in found.text) == (factor == "volume")
    deployment = found.decision.table.loc["SQLite", "deployment"]
    standings = [criterion.of("SQLite") for criterion in found.criteria]
    assert all(standing is None or deployment in standing.where for standing in standings)
