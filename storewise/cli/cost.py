"""`storewise cost`: how long a study will run, and what it will cost, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from storewise.cli.console import RESULTS, JsonLines, Many, Scale, Study, print_line


def cost(
    study: Study,
    scale: Scale = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Whose node classes are priced: a name under profiles/, or a path."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All trials, those too that are measured already.")
    ] = False,
    many: Many = False,
    probe: Annotated[
        bool,
        typer.Option(
            help="Without --profile: try out this machine for about ten seconds, unless the study "
            "was measured before."
        ),
    ] = True,
    json_: JsonLines = False,
) -> None:
    """Say how long a study will run, and on a cloud what it will cost, with all that is assumed.

    Without `--profile` the study runs on this machine: a part of its inputs is loaded and read for
    about ten seconds, and the time of the whole study follows from that. Money is shown where the
    study sets `prices` or the profile's hosts are a cloud's (config/prices.yaml). No trial is
    started.

    Example: `storewise cost mine.yaml`, or
    `storewise cost niec2014-nodes --scale paper --profile aws`
    """
    from storewise.estimate.estimate import still_to_measure
    from storewise.estimate.render import show
    from storewise.run.profiles import node_classes
    from storewise.run.runner import workflow_home
    from storewise.study.load import load_study
    from storewise.study.prices import HostPrice

    home = workflow_home()
    plan = load_study(study, scale=scale, root=home, many=many)
    results = RESULTS / plan.name
    trials = plan.trials() if all_ else still_to_measure(plan, results)
    classes = node_classes(profile, home) if profile is not None else {}
    priced = plan.max_cost is not None or (plan.prices is not None and plan.prices.by_study)
    if not priced and not any(one.instance for one in classes.values()):
        plan = plan.model_copy(update={"prices": None})
    here = profile in {None, "local"}
    expected = estimated(plan, trials, classes, results, here=here, try_out=probe)
    if json_:
        print_line(expected, default=HostPrice._asdict)
    else:
        show(expected, plan.max_cost if plan.prices is not None else None)


def estimated(
    plan: Any, trials: Any, classes: Any, results: Path, *, here: bool, try_out: bool
) -> Any:
    """The estimate; on this machine rates that nobody has measured are tried out first."""
    from storewise.cli.progress import working
    from storewise.estimate.estimate import estimate

    known = estimate(plan, trials, classes, results, here=here)
    if not (here and try_out and known.guessed):
        return known
    from storewise.run.probe import probe

    with working("trying out this machine for about ten seconds"):
        tried = probe(plan)
    return estimate(plan, trials, classes, results, here=here, probe=tried)
