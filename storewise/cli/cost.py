"""`storewise cost`: what a study will cost before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from storewise.cli.console import RESULTS, Scale, Study, print_line


def cost(
    study: Study,
    scale: Scale = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", help="Whose node classes are priced: a name under profiles/, or a path."
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All trials, those too that are measured already.")
    ] = False,
    start_up: Annotated[
        float | None, typer.Option("--start-up", min=0, help="Minutes in which a host starts.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", min=0, help="Minutes that an idle host waits.")
    ] = None,
    many: Annotated[
        bool, typer.Option("--many", help="Also a study of more than 20,000 trials.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what it will cost to measure what is left of a study, with everything that is assumed.

    Hours of hosts, and money by config/prices.yaml or the study's `prices`. Nothing is started.

    Example: `storewise cost niec2014-nodes --scale paper --profile aws`
    """
    from storewise.estimate.estimate import IDLE, START_UP, estimate, still_to_measure
    from storewise.estimate.render import show
    from storewise.estimate.work import Amount
    from storewise.run.profiles import node_classes
    from storewise.run.runner import workflow_home
    from storewise.study.load import load_study
    from storewise.study.prices import HostPrice

    home = workflow_home()
    plan = load_study(study, scale=scale, root=home, many=many)
    results = RESULTS / plan.name
    trials = plan.trials() if all_ else still_to_measure(plan, results)
    expected = estimate(
        plan,
        trials,
        node_classes(profile, home) if profile is not None else {},
        results,
        start_up=START_UP if start_up is None else Amount.exact(60 * start_up),
        idle=IDLE if idle is None else 60 * idle,
    )
    if json_:
        print_line(expected, default=HostPrice._asdict)
    else:
        show(expected, plan.max_cost)
