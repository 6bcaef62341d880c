"""What a single value of a study cannot tell: names, levels and what engines are able to do.

A study that asks an engine for what it cannot do is refused here, when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from storewise.engines.contract.engine import Engine
from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import ENGINES, engine
from storewise.errors import EngineError
from storewise.study.criteria import KEYS
from storewise.study.factors import NODE_CLASS, OF_SERVERS, PLAIN_FACTORS, SERVER_FACTORS
from storewise.study.fault_checks import check_conditions
from storewise.study.host_classes import is_class_name
from storewise.study.limits import check_limits
from storewise.study.study import Study
from storewise.study.sweep import MOST_CLIENTS, take_clients
from storewise.study.trial import Trial
from storewise.workloads.contract import PhaseParams
from storewise.workloads.registry import WORKLOADS, workload
from storewise.yamlfile import StudyText, nearest, shown

#: Those whose levels are numbers, and the least and the most of each: more is a slip of the pen.
_NUMBERS = {
    "workers": (1, 10_000),
    "processes": (1, 10_000),
    "threads": (1, MOST_CLIENTS),
    "nodes": (1, 10_000),
    "replicas": (1, 100),
    "routers": (0, 10_000),
    "node_threads": (1, 10_000),
    "node_memory_mb": (64, 1 << 30),
}


def _check_weights(study: Study, text: StudyText) -> None:
    for key in study.weights:
        if key not in KEYS:
            text.fail(
                ("weights", key),
                f"no criterion is called {shown(key)}{nearest(key, KEYS)}; known: "
                f"{', '.join(KEYS)}",
            )
    if study.weights and not any(study.weights.values()):
        text.fail(("weights",), "at least one must be above 0")


def check_study(study: Study, text: StudyText, *, many: bool = False) -> None:
    """What a single value cannot tell: names, levels and what engines are able to do."""
    for name in study.engines:
        if name not in ENGINES:
            text.fail(
                ("engines", name),
                f"no engine is called {shown(name)}{nearest(name, list(ENGINES))}; "
                f"known: {', '.join(sorted(ENGINES))}",
            )
    if study.workload not in WORKLOADS:
        text.fail(
            ("workload",),
            f"no workload is called {shown(study.workload)}"
            f"{nearest(study.workload, list(WORKLOADS))}; known: {', '.join(sorted(WORKLOADS))}",
        )
    _check_indexes(study, text)
    _check_factors(study, text)
    _check_weights(study, text)
    try:
        engines = {name: engine(name) for name in study.engines}
    except EngineError as error:
        text.fail(("engines",), str(error))
    for name, found in engines.items():
        if found.flags.rereads and not workload(study.workload).reads_inputs:
            text.fail(
                ("engines", name),
                f"answers from SSEARCH outputs, which workload {study.workload} does not have; "
                "leave the engine out",
            )
    if not any(found.flags.nodes for found in engines.values()):
        for name in study.factors.keys() & set(OF_SERVERS):
            text.fail(
                ("factors", name),
                "is a factor of servers; no engine here has nodes: all are embedded or external",
            )
    check_limits(study, text, many=many)
    trials = study.trials()
    if not trials:
        text.fail(("exclude",), "leaves no trial at all")
    for trial in trials:
        _check_trial(trial, engines[trial.engine], text)
    _check_phases(study, engines, text)
    check_conditions(study, text)


def _check_indexes(study: Study, text: StudyText) -> None:
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


def _check_factors(study: Study, text: StudyText) -> None:
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
                f"is not a known factor{nearest(name, PLAIN_FACTORS)}; known: "
                f"{', '.join(PLAIN_FACTORS)}, phase.parameter and engine.setting",
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
        for level in levels:
            least, most = _NUMBERS.get(name, (None, 0))
            if least is not None and (
                not isinstance(level, int) or isinstance(level, bool) or not least <= level <= most
            ):
                text.fail(
                    ("factors", name),
                    f"levels are whole numbers from {least} to {most:,}; found {shown(level)}",
                )
            if name == "volume" and not (
                isinstance(level, int | float) and not isinstance(level, bool) and 0 < level <= 1
            ):
                text.fail(
                    ("factors", name), f"levels are above 0 and at most 1; found {shown(level)}"
                )
            if name == NODE_CLASS and not (isinstance(level, str) and is_class_name(level)):
                text.fail(
                    ("factors", name),
                    f"levels are names of classes of hosts, such as data; found {shown(level)}",
                )
            if name == "index" and level not in ("none", "before", "after"):
                text.fail(
                    ("factors", name), f"levels are none, before, after; found {shown(level)}"
                )
            if name == "consistency" and not isinstance(level, str):
                text.fail(
                    ("factors", name), f"levels are words, such as durable; found {shown(level)}"
                )
    later = [phase.name for phase in study.phases[1:]]
    for i, rule in enumerate(study.exclude):
        if "phase" in rule and rule["phase"] not in later:
            text.fail(
                ("exclude", i, "phase"),
                f"{shown(rule['phase'])} is no phase after the load"
                f"{nearest(str(rule['phase']), later)}",
            )
        for key in rule:
            known = ["engine", "phase", *PLAIN_FACTORS, *study.factors]
            if key not in known:
                text.fail(("exclude", i, key), f"is not a factor{nearest(key, known)}")


def _check_trial(trial: Trial, store: Engine, text: StudyText) -> None:
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
            f"engine {trial.engine} has no secondary indexes; leave the engine out, or add "
            f"`exclude: [{{engine: {trial.engine}, index: {trial.index_time}}}]`",
        )
    try:
        store.Settings.model_validate(trial.settings)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        known = sorted(store.Settings.model_fields)
        place: tuple[str | int, ...] = ("engines", trial.engine, key)
        if f"{trial.engine}.{key}" in trial.factors:
            place = ("factors", f"{trial.engine}.{key}")
        if first["type"] == "extra_forbidden":
            text.fail(
                place,
                f"is not a setting of {trial.engine}{nearest(key, known)}; "
                f"known: {', '.join(known) or 'none'}",
            )
        text.fail(place, f"{first['msg'].lower()}; found {shown(first.get('input'))}")
    _check_kinds(trial, store, text)
    _check_topology(trial, store, text)


def _check_kinds(trial: Trial, store: Engine, text: StudyText) -> None:
    try:
        kinds = trial.kinds()
    except ValidationError:
        return  # the check of the phases says so
    try:
        store.check_kinds(trial.settings, kinds)
    except EngineError as error:
        text.fail(("engines", trial.engine), str(error))


def _check_topology(trial: Trial, store: Engine, text: StudyText) -> None:
    if not isinstance(store, ServerEngine):
        return
    try:
        store.roles(trial.topology, trial.settings)
    except EngineError as error:
        shape = {
            k: v
            for k, v in trial.factors.items()
            if k in SERVER_FACTORS and [v] != SERVER_FACTORS[k]
        }
        rule = ", ".join(f"{k}: {v}" for k, v in {"engine": trial.engine, **shape}.items())
        text.fail(
            ("factors", next(iter(shape), "nodes")),
            f"{error}; leave the engine out, or add `exclude: [{{{rule}}}]`",
        )


def _check_phases(study: Study, engines: Mapping[str, Engine], text: StudyText) -> None:
    chosen = workload(study.workload)
    spec = chosen.phases
    loads: list[PhaseParams] = []
    for i, phase in enumerate(study.phases):
        place = ("phases", i, phase.name)
        if phase.name not in spec:
            text.fail(
                place,
                f"workload {study.workload} has no phase {shown(phase.name)}"
                f"{nearest(phase.name, list(spec))}; it has: {', '.join(spec)}",
            )
        if spec[phase.name].loads != (i == 0):
            text.fail(place, "the loading phase comes first, and once")
        dotted = {
            key.split(".", 1)[1]: levels
            for key, levels in study.factors.items()
            if key.startswith(f"{phase.name}.")
        }
        if spec[phase.name].loads and any(
            phase.params.get(key) for key in ("rate", "restart", "search")
        ):
            text.fail(place, "a loading phase has no `rate`, no `restart` and no `search`")
        if spec[phase.name].loads and len(phase.steps) > 1:
            text.fail((*place, "steps"), "a loading phase has one step: it makes the data")
        doing = [n for n in study.engines if not study.leaves_out(phase.name, {"engine": n})]
        variants: list[tuple[str | None, dict[str, Any]]] = [(None, {})]
        variants += [(k, {k: v}) for k, levels in dotted.items() for v in levels]
        for step in phase.step_overrides():
            for factor, extra in variants:
                try:
                    values, clients = take_clients({**phase.params, **extra}, step, 1)
                except ValueError as error:
                    text.fail(place, str(error))
                if spec[phase.name].loads and clients.total is not None:
                    text.fail(place, "a loading phase has `threads`, not `clients`")
                try:
                    params = spec[phase.name].params.model_validate(values)
                except ValidationError as error:
                    first = error.errors()[0]
                    key = str(first["loc"][0]) if first["loc"] else ""
                    known = sorted(spec[phase.name].params.model_fields)
                    at = ("factors", f"{phase.name}.{factor}") if factor == key else (*place, key)
                    if first["type"] == "extra_forbidden":
                        text.fail(
                            at,
                            f"is not a parameter of phase {phase.name}{nearest(key, known)}; "
                            f"known: {', '.join(known)}, clients, steps, sweep",
                        )
                    text.fail(at, f"{first['msg'].lower()}; found {shown(first.get('input'))}")
                if spec[phase.name].loads:
                    loads.append(params)
                    continue
                for load in loads:
                    if problem := chosen.clash(load, params):
                        text.fail(place, problem)
                for name in doing:
                    for flag in spec[phase.name].needs(params):
                        if not getattr(engines[name].flags, flag):
                            text.fail(
                                place,
                                f"engine {name} cannot do this: it has no {flag.replace('_', ' ')};"
                                " leave the engine or the phase out, or add "
                                f"`exclude: [{{engine: {name}, phase: {phase.name}}}]`",
                            )
