"""`storewise cost`: what a study will cost before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from storewise.estimate.estimate import Estimate

#: Characters of the widest table: thousands of hosts, and amounts of millions.
WIDEST = 120


def cost(
    study: Annotated[str, typer.Argument(help="Name under config/studies, or a YAML file.")],
    scale: Annotated[str | None, typer.Option("--scale", help="One of the study's scales.")] = None,
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
    from storewise.estimate.work import Amount
    from storewise.run.profiles import node_classes
    from storewise.run.runner import workflow_home
    from storewise.study.load import load_study
    from storewise.study.prices import HostPrice

    home = workflow_home()
    found = load_study(study, scale=scale, root=home, many=many)
    results = Path("results") / found.name
    trials = found.trials() if all_ else still_to_measure(found, results)
    told = estimate(
        found,
        trials,
        node_classes(profile, home) if profile is not None else {},
        results,
        start_up=START_UP if start_up is None else Amount.exact(60 * start_up),
        idle=IDLE if idle is None else 60 * idle,
    )
    if json_:
        from dataclasses import asdict

        import orjson

        typer.echo(orjson.dumps(asdict(told), default=HostPrice._asdict).decode())
        return
    show(told, found.max_cost)


def show(told: Estimate, limit: float | None) -> None:
    """Write the estimate's tables and assumptions to standard output."""
    from rich.console import Console

    from storewise.estimate.estimate import amount_text, money_text

    console = Console(highlight=False)
    measured = f", {told.measured} of its trials are measured already" if told.measured else ""
    number = "1 trial" if told.trials == 1 else f"{told.trials} trials"
    console.print(f"Study {told.study}: {number} to measure{measured}.")
    if not told.trials:
        return
    # Lines that a narrow terminal breaks are better than amounts that are cut to fit.
    wide = Console(highlight=False, width=max(console.width, WIDEST))
    wide.print(_engines(told))
    wide.print(_hosts(told))
    hours = amount_text(told.seconds.times(1 / 3600), "{:,.1f}".format)
    console.print(f"It takes about {hours} h; {told.spot:.0%} of the hours of hosts are spot.")
    if told.money is None:
        console.print("There are no prices (config/prices.yaml): hours only.")
    else:
        if told.unpriced:
            console.print(
                f"There is no price of {', '.join(told.unpriced)} (config/prices.yaml): what is "
                "shown is that of any host."
            )
        console.print(f"Together about {amount_text(told.money, money_text)} {told.currency}.")
        if limit is not None:
            state = "above" if told.money.mean > limit else "within"
            refused = ", and a run is refused without these prices" if told.unpriced else ""
            console.print(
                f"That is {state} the study's max_cost of {money_text(limit)} {told.currency}"
                f"{refused}."
            )
    console.print("\nAssumed (ranges take all that is uncertain at its lowest or highest at once):")
    for term, text in told.assumptions:
        console.print(f"  {term}: {text}", markup=False, soft_wrap=True)


def _engines(told: Estimate) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from storewise.estimate.estimate import amount_text

    heads = ("engine", "trials", "hosts of a trial", "hours of a trial")
    table = Table(*heads, box=SIMPLE_HEAD)
    for line in told.engines:
        low, high = line.hosts
        hosts = f"{low}" if low == high else f"{low} to {high}"
        table.add_row(
            line.engine, str(line.trials), hosts, amount_text(line.hours, "{:.2f}".format)
        )
    return table


def _hosts(told: Estimate) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from storewise.estimate.estimate import money_text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("hosts", no_wrap=True)
    table.add_column("instance", no_wrap=True)
    for head in ("most", "starts", "hours", "unused", *filter(None, [told.currency])):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("range", no_wrap=True)
    for line in told.lines:
        place, use = line.place, line.use
        spot = " spot" if place and place.market == "spot" else ""
        instance = f"{place.instance}{spot}" if place and place.instance else "your own"
        shown = line.money or line.hours
        table.add_row(
            line.name,
            instance,
            f"{use.most}",
            f"{use.starts}",
            f"{use.hours:,.1f}",
            f"{use.starting + use.idle:,.1f}",
            *([money_text(line.money.mean)] if line.money is not None else []),
            f"{_brief(shown.low)} to {_brief(shown.high)}",
        )
    return table


def _brief(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
