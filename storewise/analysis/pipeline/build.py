"""All tables of a study: first the measured ones, then those that judges derive from them.

A judge answers one question and has its own module. It takes the tables and returns one or more
further tables with warnings. Judges read tables, never samples or files, so each also works on
stored CSV files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from storewise.analysis.common.frames import joined
from storewise.analysis.judge import anova, bottlenecks
from storewise.analysis.judge.cost import costs
from storewise.analysis.judge.usl import usl
from storewise.analysis.measure import derived
from storewise.analysis.measure import host_load as hosts
from storewise.analysis.measure import per_node as owners
from storewise.analysis.measure import throughput as rates
from storewise.analysis.measure.measures import with_steps
from storewise.analysis.measure.points import points
from storewise.analysis.measure.query_plans import plan_warnings, plans
from storewise.analysis.measure.references import compare
from storewise.analysis.measure.summary import few_repeats, summarise
from storewise.analysis.measure.verification import verification_warnings
from storewise.analysis.model.columns import ALL, RATES
from storewise.analysis.model.results import OfTrials, Results
from storewise.analysis.model.tables import Judged, Tables

#: Table name -> its judge; later ones may read the tables of earlier ones in `Tables.judged`.
JUDGES: dict[str, Callable[[Tables], Judged]] = {
    "variance": anova.variance,
    "usl": usl,
    "limits": bottlenecks.limits,
}


def build_tables(results: Results) -> Tables:
    """All tables; a pure function."""
    return judge(measured_tables(results))


def judge(tables: Tables) -> Tables:
    """The tables with all derived ones and their warnings."""
    for name, make in JUDGES.items():
        judged = make(tables)
        tables = replace(
            tables,
            judged={**tables.judged, name: judged.table, **judged.beside},
            warnings=sorted({*tables.warnings, *judged.warnings}),
        )
    return tables


def measured_tables(results: Results) -> Tables:
    """The tables without derived ones."""
    measured = results.measured
    measures = with_steps(measured.measures, measured.parameters)
    ways = (derived.efficiencies, derived.highest_rates, derived.pays, owners.slowed_rates)
    paid, cost_warnings = costs(measures, results)
    measures = joined([measures, *(derive(measures, results) for derive in ways), paid])
    summary = summarise(measures, results)
    throughput = measures[(measures["operation"] == ALL) & measures["measure"].isin(RATES)]
    curves, agreement = compare(results.references, points(results, measures))
    planned = plans(results)
    warnings = [
        *results.warnings,
        *plan_warnings(planned, results),
        *measured.warnings,
        *cost_warnings,
        *rates.short_phases(throughput),
        *rates.errors(throughput),
        *few_repeats(results),
        *hosts.canary_warnings(measured.host),
        *verification_warnings(measured.verification),
    ]
    return Tables(
        **{one.name: getattr(measured, one.name) for one in fields(OfTrials)},
        results=results,
        trials=results.trials,
        summary=summary,
        measures=measures,
        reference_curves=curves,
        reference_agreement=agreement,
        plans=planned,
        warnings=sorted(set(warnings)),
    )
