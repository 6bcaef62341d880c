"""An estimate as text: tables of engines and hosts, and what was assumed."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from storewise.estimate.estimate import Estimate, amount_text, money_text
from storewise.estimate.work import Amount

#: Characters of the widest table: thousands of hosts, and amounts of millions.
WIDEST = 120


def show(expected: Estimate, limit: float | None) -> None:
    """Write the estimate's tables and assumptions to standard output."""
    console = Console(highlight=False)
    measured = (
        f", {expected.measured} of its trials are measured already" if expected.measured else ""
    )
    number = "1 trial" if expected.trials == 1 else f"{expected.trials} trials"
    console.print(f"Study {expected.study}: {number} to measure{measured}.")
    if not expected.trials:
        return
    # Lines that a narrow terminal breaks are better than amounts that are cut to fit.
    wide = Console(highlight=False, width=max(console.width, WIDEST))
    wide.print(_engines(expected))
    if expected.cloud or expected.money is not None:
        wide.print(_hosts(expected))
    spot = f"; {expected.spot:.0%} of the hours of hosts are spot" if expected.cloud else ""
    console.print(f"It takes about {time_text(expected.seconds)}{spot}.")
    if expected.money is None:
        console.print("Time only: give the study `prices`, or name a cloud's --profile, for money.")
    else:
        if expected.unpriced:
            console.print(
                f"There is no price of {', '.join(expected.unpriced)} (config/prices.yaml): what "
                "is shown is that of any host."
            )
        console.print(
            f"Together about {amount_text(expected.money, money_text)} {expected.currency}."
        )
        if limit is not None:
            state = "above" if expected.money.mean > limit else "within"
            refused = ", and a run is refused without these prices" if expected.unpriced else ""
            console.print(
                f"That is {state} the study's max_cost of {money_text(limit)} {expected.currency}"
                f"{refused}."
            )
    console.print("\nAssumed (ranges take all that is uncertain at its lowest or highest at once):")
    for term, text in expected.assumptions:
        console.print(f"  {term}: {text}", markup=False, soft_wrap=True)


def time_text(seconds: Amount) -> str:
    """A time with its range, in seconds, minutes or hours."""
    if seconds.mean < 120:
        return f"{amount_text(seconds)} s"
    if seconds.mean < 7200:
        return f"{amount_text(seconds.times(1 / 60), _minutes)} min"
    return f"{amount_text(seconds.times(1 / 3600), '{:,.1f}'.format)} h"


def _minutes(number: float) -> str:
    return f"{number:.0f}" if number >= 9.5 else f"{number:.1f}"


def _engines(expected: Estimate) -> Table:
    heads = ("engine", "trials", "hosts of a trial", "time of a trial")
    table = Table(*heads, box=SIMPLE_HEAD)
    for line in expected.engines:
        low, high = line.hosts
        hosts = f"{low}" if low == high else f"{low} to {high}"
        table.add_row(line.engine, str(line.trials), hosts, time_text(line.hours.times(3600)))
    return table


def _hosts(expected: Estimate) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("hosts", no_wrap=True)
    table.add_column("instance", no_wrap=True)
    for head in ("most", "starts", "hours", "unused", *filter(None, [expected.currency])):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("range", no_wrap=True)
    for line in expected.lines:
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
