"""Whether the faults of a study can be made on the nodes that its trials have."""

from __future__ import annotations

from typing import Any

from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import engine
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.workloads.faults import Crash, Slow
from storewise.yamlfile import YamlFile

#: It has no nodes, and is in a study to show what the clients can do at all.
_CEILING = "null"


def check_faults(study: Study, text: YamlFile) -> None:
    """Refuse a slowing or a crash of nodes that a trial does not have, and a crash while loading.

    The phases' own parameters must have been checked.
    """
    if not _has_faults(study):
        return
    for trial in study.trials():
        known = node_names(trial)
        for i, phase in enumerate(study.phases):
            place = ("phases", i, phase.name)
            for values in _steps(trial, phase.name):
                slow, crash = values.get("slow"), values.get("crash")
                if values.get("restart") and engine(trial.engine).flags.external:
                    text.fail(
                        place,
                        f"Storewise does not start the database of {trial.engine} and cannot "
                        f"restart it; {_remedy(trial, phase.name)}",
                    )
                if crash and i == 0:
                    text.fail(
                        (*place, "crash"),
                        "a loading phase has no `crash`: what a load could not store would be "
                        "missing in all that follows; crash a phase that writes after it",
                    )
                if trial.engine == _CEILING:
                    continue
                try:
                    if slow:
                        Slow.model_validate(slow).chosen(known)
                    if crash:
                        Crash.model_validate(crash).drawn(known, trial.seed, 0)
                except ValueError as error:
                    text.fail(place, f"{error}; {_remedy(trial, phase.name)}")


def _steps(trial: Trial, name: str) -> list[dict[str, Any]]:
    """The parameters of each step of a phase; none where the trial leaves the phase out."""
    phases = [phase for phase in trial.phases if phase.name == name]
    return [{**phase.params, **step} for phase in phases for step in phase.step_overrides()]


def _has_faults(study: Study) -> bool:
    names = {"slow", "crash", "restart"}
    of_phases = {key for phase in study.phases for key in phase.params}
    of_steps = {key for phase in study.phases for step in phase.steps for key in step}
    of_factors = {key.rpartition(".")[2] for key in study.factors}
    return bool(names & (of_phases | of_steps | of_factors))


def node_names(trial: Trial) -> tuple[str, ...]:
    """Nodes of a trial that are jobs of their own; none for embedded engines."""
    store = engine(trial.engine)
    if not isinstance(store, ServerEngine):
        return ()
    specs = store.roles(trial.topology, trial.settings)
    return tuple(spec.name for spec in specs if spec.placement == "node")


def _remedy(trial: Trial, phase: str) -> str:
    nodes = f", nodes: {trial.factors['nodes']}" if "nodes" in trial.factors else ""
    return (
        f"trial {trial.id} ({trial.engine}{nodes}) cannot do it: leave it out, for example by "
        f"`exclude: [{{engine: {trial.engine}{nodes}, phase: {phase}}}]`"
    )
