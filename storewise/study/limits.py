"""How large a study may be: told by number before anything of it is expanded.

All numbers are products of what the file says, so that a study of a few lines that means a billion
trials is refused at once. ``many`` (``storewise run --many``) lifts the limits.
"""

from __future__ import annotations

import math
from statistics import fmean

from storewise.study.study import Study
from storewise.study.sweep import MOST_STEPS
from storewise.yamlfile import YamlFile

#: Trials of a study, counted before `exclude`.
MOST_TRIALS = 20_000
#: Jobs of all trials: nodes and, in each phase, workers.
MOST_JOBS = 200_000
#: Steps of all phases of all trials.
MOST_STEPS_IN_ALL = 200_000
#: Rules of `exclude`: each is held against each trial.
MOST_RULES = 200
#: Parameters of phases that are checked: steps times levels of `PHASE.PARAMETER`; and pairs of
#: those of the load with later ones.
MOST_VARIANTS = 20_000
_MANY = "`storewise run --many` (for Snakemake `--config many=true`) takes more"


def check_limits(study: Study, text: YamlFile, *, many: bool) -> None:
    """Refuse a study that means more trials, jobs or steps than anybody measures.

    Its factors must have been checked, and that its engines are known.
    """
    for i, phase in enumerate(study.phases):
        place = ("phases", i, phase.name)
        if [one.name for one in study.phases].index(phase.name) < i:
            text.fail(("phases",), "names a phase twice; use steps for several runs of one phase")
        if len(phase.steps) > MOST_STEPS:
            text.fail(place, f"has {len(phase.steps):,} steps; {MOST_STEPS:,} is the most")
    if many:
        return
    if len(study.exclude) > MOST_RULES:
        text.fail(("exclude",), f"has {len(study.exclude):,} rules, at most {MOST_RULES}; {_MANY}")
    _check_variants(study, text)
    trials = jobs = 0
    for name in study.engines:
        levels = study.levels_of(name)
        number = math.prod(map(len, levels.values())) * study.repeats
        trials += number
        # Each level is in as many trials as any other of its factor.
        nodes = fmean(levels.get("nodes", [0])) * fmean(levels.get("replicas", [1]))
        routers = fmean(levels.get("routers", [0]))
        workers = fmean(levels["workers"]) * (len(study.phases) + 1)
        jobs += round(number * (nodes + routers + workers))
    steps = trials * sum(len(phase.step_overrides()) for phase in study.phases)
    for number, most, what in (
        (trials, MOST_TRIALS, "trials"),
        (jobs, MOST_JOBS, "jobs of nodes and workers"),
        (steps, MOST_STEPS_IN_ALL, "steps of phases"),
    ):
        if number > most:
            text.fail(
                ("factors",),
                f"the study means {number:,} {what} (before `exclude`); {most:,} is the most: take "
                f"fewer levels or repeats; {_MANY}",
            )


def _check_variants(study: Study, text: YamlFile) -> None:
    """Each step of a phase is checked with each level of the phase's factors."""
    variants = []
    for phase in study.phases:
        levels = sum(len(v) for k, v in study.factors.items() if k.startswith(f"{phase.name}."))
        variants.append(len(phase.step_overrides()) * (1 + levels))
    load, *later = variants
    for number, what in (
        (sum(variants), "checked alone"),
        (load * sum(later), "of load and later"),
    ):
        if number > MOST_VARIANTS:
            text.fail(
                ("phases",),
                f"means {number:,} variants of parameters ({what}: steps times levels); "
                f"{MOST_VARIANTS:,} is the most; {_MANY}",
            )
