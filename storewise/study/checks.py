"""Checks of a study beyond single values: names, levels and abilities of engines.

A study that asks an engine for what it cannot do is refused here, when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from storewise.engines.contract.engine import Engine
from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import CEILING, engine, engine_names, is_engine
from storewise.errors import EngineError
from storewise.study.criteria import KEYS
from storewise.study.factors import LEVELS, OF_SERVERS, PLAIN_FACTORS, SERVER_FACTORS
from storewise.study.section import complaint
from storewise.study.study import Study
from storewise.study.sweep import MOST_STEPS, take_clients
from storewise.study.trial import Trial, node_jobs
from storewise.workloads.contract import PhaseParams, PhaseSpec
from storewise.workloads.faults import Crash, Slow
from storewise.workloads.registry import workload
from storewise.yamlfile import Place, YamlFile, nearest, shown, suggestion

#: Rounds of which two stores can be told apart at all.
MIN_REPEATS = 3
#: Parameters of a phase that disturb servers.
FAULTS = frozenset({"slow", "crash", "restart"})
#: Trials of a study, counted before `exclude`.
MAX_TRIALS = 20_000


def check_study(study: Study, text: YamlFile, *, many: bool = False) -> None:
    """Check names, levels and abilities of engines, which no single value tells."""
    for name in study.engines:
        if not is_engine(name):
            check_name(text, ("engines", name), "engine", name, sorted(engine_names()))
    for key in study.weights:
        check_name(text, ("weights", key), "criterion", key, KEYS)
    if study.weights and not any(study.weights.values()):
        text.fail(("weights",), "at least one must be above 0")
    _check_indexes(study, text)
    _check_factors(study, text)
    _check_rules(study, text)
    try:
        engines = {name: engine(name) for name in study.engines}
    except EngineError as error:
        text.fail(("engines",), str(error))
    for name, store in engines.items():
        if store.flags.rereads and not workload(study.workload).reads_inputs:
            text.fail(
                ("engines", name),
                f"answers from outputs, which workload {study.workload} does not have; "
                "leave the engine out",
            )
    if not any(store.flags.nodes for store in engines.values()):
        for name in study.factors.keys() & set(OF_SERVERS):
            text.fail(
                ("factors", name),
                "is a factor of servers; no engine here has nodes: all are embedded or external",
            )
    _check_size(study, text, many=many)
    trials = study.trials()
    if not trials:
        text.fail(("exclude",), "leaves no trial at all")
    for trial in trials:
        _check_trial(trial, engines[trial.engine], text)
    _check_phases(study, engines, text)
    _check_faults(study, trials, text)


def too_few_repeats(study: Study) -> str | None:
    """One line where a study's stores are measured but cannot be judged; None where they can."""
    stores = [n for n in study.engines if n != CEILING and not engine(n).flags.rereads]
    if study.repeats >= MIN_REPEATS or len(stores) < 2:
        return None
    return (
        f"`repeats: {study.repeats}` in study {study.name}: its stores are measured, but cannot be "
        f"judged; {MIN_REPEATS} are the fewest for that, 5 are better"
    )


def check_name(text: YamlFile, place: Place, noun: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        text.fail(place, f"no {noun} is called {shown(name)}{suggestion(name, known)}")


def _check_size(study: Study, text: YamlFile, *, many: bool) -> None:
    """Refuse a study that means more trials than anybody measures, before any of them is made."""
    for i, phase in enumerate(study.phases):
        if [one.name for one in study.phases].index(phase.name) < i:
            text.fail(("phases",), "names a phase twice; use steps for several runs of one phase")
        if len(phase.steps) > MOST_STEPS:
            text.fail(
                ("phases", i, phase.name),
                f"has {len(phase.steps):,} steps; {MOST_STEPS:,} is the most",
            )
    levels = [study.levels_of(name).values() for name in study.engines]
    trials = sum(math.prod(map(len, of_engine)) for of_engine in levels) * study.repeats
    if trials > MAX_TRIALS and not many:
        text.fail(
            ("factors",),
            f"the study means {trials:,} trials (before `exclude`); {MAX_TRIALS:,} is the most: "
            "take fewer levels or repeats; `storewise run --many` (for Snakemake "
            "`--config many=true`) takes more",
        )


def _check_indexes(study: Study, text: YamlFile) -> None:
    load = study.phases[0].params
    try:
        kinds = {kind.table: kind for kind in workload(study.workload).kinds(load)}
    except ValidationError:
        return  # the check of the phases says so
    for i, item in enumerate(study.indexes):
        table, _, name = item.partition(".")
        if table not in kinds or name not in {f.name for f in kinds[table].fields}:
            text.fail(
                ("indexes", i),
                f"{shown(item)} is not a field; write `table.field`; tables: {', '.join(kinds)}",
            )
        if study.study_fields and any(
            f.name == name and f.beyond_study for f in kinds[table].fields
        ):
            text.fail(("indexes", i), f"{shown(item)} is left out by study_fields: true")


def _check_factors(study: Study, text: YamlFile) -> None:
    owners = {p.name for p in study.phases} | set(study.engines)
    for name, levels in study.factors.items():
        if "." in name:
            owner = name.split(".", 1)[0]
            if owner not in owners:
                text.fail(
                    ("factors", name),
                    f"{shown(owner)} is neither a phase nor an engine of this study"
                    f"{nearest(owner, sorted(owners))}",
                )
        elif name not in PLAIN_FACTORS:
            text.fail(
                ("factors", name),
                "is not a known factor"
                + suggestion(name, [*PLAIN_FACTORS, "phase.parameter", "engine.setting"]),
            )
        if not levels:
            text.fail(("factors", name), "has no levels")
        if name == "volume" and not workload(study.workload).reads_inputs:
            text.fail(
                ("factors", name),
                f"is the share of the input files; workload {study.workload} reads none",
            )
        if len({json.dumps(v, sort_keys=True) for v in levels}) < len(levels):
            text.fail(("factors", name), "has a level twice")
        fits, words = LEVELS.get(name, (None, ""))
        for level in levels:
            if fits is not None and not fits(level):
                text.fail(("factors", name), f"levels are {words}; found {shown(level)}")


def _check_rules(study: Study, text: YamlFile) -> None:
    later = [phase.name for phase in study.phases[1:]]
    known = ["engine", "phase", *PLAIN_FACTORS, *study.factors]
    for i, rule in enumerate(study.exclude):
        if "phase" in rule and rule["phase"] not in later:
            text.fail(
                ("exclude", i, "phase"),
                f"{shown(rule['phase'])} is no phase after the load"
                f"{nearest(str(rule['phase']), later)}",
            )
        for key in rule:
            if key not in known:
                text.fail(("exclude", i, key), f"is not a factor{nearest(key, known)}")


def _check_trial(trial: Trial, store: Engine, text: YamlFile) -> None:
    if trial.consistency not in store.consistencies:
        text.fail(
            ("factors", "consistency"),
            f"engine {trial.engine} has no level {shown(trial.consistency)}"
            f"{nearest(str(trial.consistency), list(store.consistencies))}; "
            f"it has: {', '.join(store.consistencies)}, and the words strong and weak",
        )
    if trial.index_time != "none" and not store.flags.secondary_indexes:
        text.fail(
            ("factors", "index"),
            f"engine {trial.engine} has no secondary indexes; "
            + _leave_out(engine=trial.engine, index=trial.index_time),
        )
    try:
        store.Settings.model_validate(trial.settings)
    except ValidationError as error:
        place, message = complaint(error, store.Settings, noun=f"setting of {trial.engine}")
        factor = f"{trial.engine}.{place[0] if place else ''}"
        top = ("factors", factor) if factor in trial.factors else ("engines", trial.engine, *place)
        text.fail(top, message)
    try:
        schema = trial.store_schema()
    except ValidationError:
        return  # the check of the phases says so
    try:
        store.check_schema(trial.settings, schema)
    except EngineError as error:
        text.fail(("engines", trial.engine), str(error))
    if not isinstance(store, ServerEngine):
        return
    try:
        store.roles(trial.topology, trial.settings)
    except EngineError as error:
        shape = {k: v for k, v in trial.factors.items() if SERVER_FACTORS.get(k, [v]) != [v]}
        remedy = _leave_out(engine=trial.engine, **shape)
        text.fail(("factors", next(iter(shape), "nodes")), f"{error}; {remedy}")


def _check_phases(study: Study, engines: Mapping[str, Engine], text: YamlFile) -> None:
    kind = workload(study.workload)
    loads: list[PhaseParams] = []
    for i, phase in enumerate(study.phases):
        place = ("phases", i, phase.name)
        spec = kind.phases.get(phase.name)
        if spec is None:
            text.fail(
                place,
                f"workload {study.workload} has no phase {shown(phase.name)}"
                f"{nearest(phase.name, list(kind.phases))}; it has: {', '.join(kind.phases)}",
            )
        if spec.loads != (i == 0):
            text.fail(place, "the loading phase comes first, and once")
        if spec.loads and any(phase.params.get(key) for key in ("rate", "restart", "search")):
            text.fail(place, "a loading phase has no `rate`, no `restart` and no `search`")
        if spec.loads and len(phase.steps) > 1:
            text.fail((*place, "steps"), "a loading phase has one step: it makes the data")
        users = [n for n in study.engines if not study.leaves_out(phase.name, {"engine": n})]
        for params in _variants(study, i, spec, text):
            if spec.loads:
                loads.append(params)
                continue
            for load in loads:
                if problem := kind.clash(load, params):
                    text.fail(place, problem)
            for name in users:
                for flag in spec.needs(params):
                    if not getattr(engines[name].flags, flag):
                        text.fail(
                            place,
                            f"engine {name} cannot do this: it has no {flag.replace('_', ' ')}; "
                            + _leave_out(engine=name, phase=phase.name),
                        )


def _variants(study: Study, i: int, spec: PhaseSpec, text: YamlFile) -> Iterator[PhaseParams]:
    """The parameters of each step of a phase, as they are and with each level of its factors."""
    phase = study.phases[i]
    place = ("phases", i, phase.name)
    changes: list[tuple[str | None, dict[str, Any]]] = [(None, {})]
    for factor, levels in study.factors.items():
        owner, _, key = factor.partition(".")
        changes += [(key, {key: level}) for level in levels if owner == phase.name and key]
    for step in phase.step_overrides():
        for changed, change in changes:
            try:
                values, clients = take_clients({**phase.params, **change}, step, 1)
            except ValueError as error:
                text.fail(place, str(error))
            if spec.loads and clients.total is not None:
                text.fail(place, "a loading phase has `threads`, not `clients`")
            try:
                yield spec.params.model_validate(values)
            except ValidationError as error:
                inside, message = complaint(
                    error,
                    spec.params,
                    noun=f"parameter of phase {phase.name}",
                    more=("clients", "steps", "sweep"),
                )
                factor = f"{phase.name}.{changed}"
                of_factor = inside[:1] == (changed,)
                text.fail(("factors", factor) if of_factor else (*place, *inside), message)


def _check_faults(study: Study, trials: Sequence[Trial], text: YamlFile) -> None:
    """Refuse faults of nodes that a trial does not have, and a crash while loading."""
    names = [phase.name for phase in study.phases]
    for trial in trials:
        for phase in trial.phases:
            place = ("phases", names.index(phase.name), phase.name)
            for step in phase.step_overrides():
                if FAULTS & (phase.params.keys() | step.keys()):
                    _check_step_faults(trial, {**phase.params, **step}, place, text)


def _check_step_faults(
    trial: Trial, values: Mapping[str, Any], place: tuple[str, int, str], text: YamlFile
) -> None:
    slow, crash = values.get("slow"), values.get("crash")
    store = engine(trial.engine)
    nodes = {"nodes": trial.factors["nodes"]} if "nodes" in trial.factors else {}
    remedy = _leave_out(engine=trial.engine, **nodes, phase=place[-1])
    if values.get("restart") and store.flags.external:
        text.fail(
            place,
            f"Storewise does not start the database of {trial.engine} and cannot restart it; "
            f"{remedy}",
        )
    if crash and place[1] == 0:
        text.fail(
            (*place, "crash"),
            "a loading phase has no `crash`: what a load could not store would be missing in all "
            "that follows; crash a phase that writes after it",
        )
    if trial.engine == CEILING:
        return
    known = tuple(spec.name for spec in node_jobs(trial))
    try:
        if slow:
            Slow.model_validate(slow).chosen(known, store.data_roles)
        if crash:
            Crash.model_validate(crash).drawn(known, store.data_roles, trial.seed, 0)
    except ValueError as error:
        text.fail(place, f"trial {trial.id}: {error}; {remedy}")


def _leave_out(**rule: Any) -> str:
    """The advice how to leave out levels of consistency that an engine does not support."""
    levels = ", ".join(f"{key}: {level}" for key, level in rule.items())
    out = "the engine or the phase" if "phase" in rule else "the engine"
    return f"leave {out} out, or add `exclude: [{{{levels}}}]`"
