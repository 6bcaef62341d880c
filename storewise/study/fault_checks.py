"""Whether what a study does to nodes can be done to the nodes that its trials have."""

from __future__ import annotations

from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import engine
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.workloads.faults import Crash, Slow
from storewise.yamlfile import StudyText

#: It has no nodes, and is in a study to show what the clients can do at all.
_CEILING = "null"


def check_conditions(study: Study, text: StudyText) -> None:
    """Refuse a slowing or a crash of nodes that a trial does not have, and a crash while loading.

    The phases' own parameters must have been checked.
    """
    if not _has_conditions(study):
        return
    for trial in study.trials():
        known = node_names(trial)
        for i, phase in enumerate(study.phases):
            if phase.name not in {one.name for one in trial.phases}:
                continue
            own = trial.phase(phase.name)
            place = ("phases", i, phase.name)
            for step in own.step_overrides():
                values = {**own.params, **step}
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
                if not (slow or crash) or trial.engine == _CEILING:
                    continue
                try:
                    if slow:
                        Slow.model_validate(slow).chosen(known)
                    if crash:
                        Crash.model_validate(crash).drawn(known, trial.seed, 0)
                except ValueError as error:
                    text.fail(place, f"{error}; {_remedy(trial, phase.name)}")


def _has_conditions(study: Study) -> bool:
    names = {"slow", "crash", "restart"}
    return any(
        names & {*phase.params, *(key for step in phase.steps for key in step)}
        for phase in study.phases
    ) or any(key.rpartition(".")[2] in names for key in study.factors)


def node_names(trial: Trial) -> tuple[str, ...]:
    """Nodes of a trial that are jobs of their own; none for embedded engines."""
    found = engine(trial.engine)
    if not isinstance(found, ServerEngine):
        return ()
    specs = found.roles(trial.topology, trial.settings)
    return tuple(spec.name for spec in specs if spec.placement == "node")


def _remedy(trial: Trial, phase: str) -> str:
    nodes = f", nodes: {trial.factors['nodes']}" if "nodes" in trial.factors else ""
    return (
        f"trial {trial.id} ({trial.engine}{nodes}) cannot do it: leave it out, for example by "
        f"`exclude: [{{engine: {trial.engine}{nodes}, phase: {phase}}}]`"
    )
