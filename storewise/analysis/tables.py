"""All tables of a study, made in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import pandas as pd

from storewise.analysis import host as hosts
from storewise.analysis import latency as latencies
from storewise.analysis import nodes as servers
from storewise.analysis import owners
from storewise.analysis import throughput as rates
from storewise.analysis.breakeven import breakeven
from storewise.analysis.judgements import judge
from storewise.analysis.load import Results, phase_samples
from storewise.analysis.parts import SESSION, processes_of, threads_of
from storewise.analysis.plans import plan_summary, plan_warnings, plans
from storewise.analysis.points import points
from storewise.analysis.questions import questions
from storewise.analysis.references import compare
from storewise.analysis.scaling import scaling
from storewise.analysis.sessions import nodes, sessions
from storewise.analysis.steps import (
    highest_rates,
    measured_steps,
    searches,
    step_parameters,
    steps,
)
from storewise.analysis.storage import node_storage, storage
from storewise.analysis.verification import verification, verification_warnings
from storewise.analysis.warning import StudyWarning, warning_table


@dataclass(frozen=True, slots=True)
class Tables:
    """What the analysis hands out; ``docs/analysis.md`` lists the columns of each table.

    Tables per trial name the trial only; `trials` has its factors. Those over repeats have a
    column per factor.
    """

    results: Results
    trials: pd.DataFrame
    series: pd.DataFrame
    throughput: pd.DataFrame
    summary: pd.DataFrame
    latency: pd.DataFrame
    latency_summary: pd.DataFrame
    scaling: pd.DataFrame
    steps: pd.DataFrame
    searches: pd.DataFrame
    highest_rates: pd.DataFrame
    storage: pd.DataFrame
    storage_summary: pd.DataFrame
    host: pd.DataFrame
    cpu: pd.DataFrame
    balance: pd.DataFrame
    per_node: pd.DataFrame
    slowdown: pd.DataFrame
    crashes: pd.DataFrame
    nodes: pd.DataFrame
    sessions: pd.DataFrame
    client_bound: pd.DataFrame
    canary: pd.DataFrame
    verification: pd.DataFrame
    questions: pd.DataFrame
    breakeven: pd.DataFrame
    reference_values: pd.DataFrame
    reference_curves: pd.DataFrame
    reference_shapes: pd.DataFrame
    reference_ratios: pd.DataFrame
    plans: pd.DataFrame
    plan_summary: pd.DataFrame
    warnings: Sequence[StudyWarning]
    judged: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables that are made of the others (``storewise.analysis.judgements``), by name."""

    def phases_of(self, table: pd.DataFrame) -> list[str]:
        """The phases in a table in the order in which they ran."""
        study = [p.get("name") for p in self.results.study.get("phases", []) if isinstance(p, dict)]
        # Without the study: what loads comes first, for there is nothing to read before it.
        loads = set(
            self.throughput.loc[self.throughput["measure"] == "insert_documents_per_s", "phase"]
        )
        names = set(map(str, table["phase"]))
        return sorted(
            names, key=lambda n: (study.index(n) if n in study else 99, n not in loads, n)
        )

    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables by name, the warnings as one too."""
        found = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in ("results", "warnings", "judged")
        }
        return {**found, **self.judged, "warnings": warning_table(self.warnings)}


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables with equal columns as one."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else tables[0]


def build_tables(results: Results) -> Tables:
    """All tables; pure but for the Hdr logs, which are read here."""
    return judge(measured_tables(results))


def measured_tables(results: Results) -> Tables:
    """The tables without those that are made of them."""
    samples = phase_samples(results)
    series = rates.series(samples)
    throughput = rates.throughput(
        samples,
        series,
        threads={(p.trial, p.phase): threads_of(p) for p in results.parts},
        processes={p.trial: processes_of(p) for p in results.parts},
    )
    summary = rates.over_repeats(throughput, results, ["phase", "step", "measure"], series)
    found, log_warnings = latencies.histograms(results)
    told = step_parameters(results)
    searched = searches(results)
    merged = latencies.merged_latency(found, results)
    node_table = nodes(results.parts, results.samples)
    session_table = sessions(node_table, results.samples)
    stored = storage(samples, results.inputs)
    stored = joined([stored, node_storage(session_table, stored)])
    load = hosts.host_load(samples)
    taken = servers.node_samples(
        joined([samples, results.samples[results.samples["phase"] == SESSION]])
    )
    host = joined([load, servers.node_load(taken, load)])
    balance = servers.balance(samples)
    conditions = owners.step_conditions(results)
    cpu = hosts.cpu_series(samples)
    bound = hosts.client_bound(load, throughput, summary, results)
    canary = hosts.canary(results.samples)
    checked = verification(results.samples)
    published = compare(
        results.references,
        points(results, samples, throughput) if results.references else (),
    )
    planned = plans(results)
    warnings = [
        *results.warnings,
        *plan_warnings(planned, results),
        *log_warnings,
        *rates.short_phases(throughput),
        *rates.errors(throughput),
        *rates.few_repeats(results),
        *hosts.bound_warnings(bound),
        *hosts.canary_warnings(canary),
        *verification_warnings(checked),
    ]
    return Tables(
        results=results,
        trials=results.trials,
        series=series,
        throughput=throughput,
        summary=summary,
        latency=latencies.latency(found),
        latency_summary=merged,
        scaling=scaling(summary, results.factors),
        steps=steps(measured_steps(samples, series, told), told, found, results),
        searches=searched,
        highest_rates=highest_rates(searched, results),
        storage=stored,
        storage_summary=rates.over_repeats(
            stored, results, ["phase", "step", "measure"], counted=True
        ),
        host=host,
        cpu=joined([cpu, servers.node_cpu(taken, cpu)]),
        balance=balance,
        per_node=owners.per_node(
            results,
            owners.owner_histograms(results),
            balance,
            rates.durations(samples),
            host,
            node_table,
            conditions,
        ),
        slowdown=owners.slowdown(throughput, conditions, results),
        crashes=owners.crashes(results, checked),
        nodes=node_table,
        sessions=session_table,
        client_bound=bound,
        canary=canary,
        verification=checked,
        questions=questions(results, merged),
        breakeven=breakeven(samples, results),
        reference_values=published.values,
        reference_curves=published.curves,
        reference_shapes=published.shapes,
        reference_ratios=published.ratios,
        plans=planned,
        plan_summary=plan_summary(planned, results),
        warnings=sorted(set(warnings)),
    )
