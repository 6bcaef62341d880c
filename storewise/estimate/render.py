"""An estimate as text: tables of engines and hosts, and the assumptions."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from storewise.estimate.estimate import Estimate, money_text
from storewise.estimate.work import Amount

#: Characters of the widest table. Lines that a narrow terminal breaks are better than amounts that
#: are cut to fit.
WIDEST = 120


def show(expected: Estimate, limit: float | None) -> None:
    """Write the estimate's tables and assumptions to standard output."""
    console = Console(highlight=False)
    measured = f" ({expected.measured} are measured already)" if expected.measured else ""
    number = "1 trial" if expected.trials == 1 else f"{expected.trials} trials"
    console.print(f"Study {expected.study}: {number} to measure{measured}.")
    if not expected.trials:
        return
    wide = Console(highlight=False, width=max(console.width, WIDEST))
    engines = Table("engine", "trials", "time of a trial", box=SIMPLE_HEAD)
    for one in expected.engines:
        engines.add_row(one.engine, str(one.trials), time_text(one.seconds))
    wide.print(engines)
    if expected.cloud or expected.money is not None:
        wide.print(_hosts(expected))
    console.print(f"It takes about {time_text(expected.seconds)}.")
    if expected.money is None:
        console.print("Time only: give the study `prices`, or name a cloud's --profile, for money.")
    else:
        if expected.unpriced:
            console.print(
                f"There is no price of {', '.join(expected.unpriced)} (config/prices.yaml): what "
                "is shown is that of any host, and a run with a max_cost is refused."
            )
        console.print(f"Together about {expected.money.text(money_text)} {expected.currency}.")
        if limit is not None:
            state = "above" if expected.money.mean > limit else "within"
            amount = f"{money_text(limit)} {expected.currency}"
            console.print(f"That is {state} the study's max_cost of {amount}.")
    console.print("\nAssumed (ranges take all that is uncertain at its lowest or highest at once):")
    for term, text in expected.assumptions:
        console.print(f"  {term}: {text}", markup=False, soft_wrap=True)


def time_text(seconds: Amount) -> str:
    """A time with its range, in seconds, minutes or hours."""
    if seconds.mean < 120:
        return f"{seconds.text()} s"
    if seconds.mean < 7200:
        return f"{seconds.times(1 / 60).text(_minutes)} min"
    return f"{seconds.times(1 / 3600).text('{:,.1f}'.format)} h"


def _minutes(number: float) -> str:
    return f"{number:.0f}" if number >= 9.5 else f"{number:.1f}"


def _hosts(expected: Estimate) -> Table:
    heads = ("hosts", "instance", "of a trial", "hours", "price of an hour", expected.currency)
    table = Table(*heads, box=SIMPLE_HEAD)
    for one in expected.lines:
        spot = " spot" if one.place and one.place.market == "spot" else ""
        instance = f"{one.place.instance}{spot}" if one.place and one.place.instance else "your own"
        price = f"{one.price.hour:g} ({one.price.basis})" if one.price else ""
        money = one.money.text(money_text) if one.money else ""
        hours = one.hours.text("{:,.1f}".format)
        table.add_row(one.name, instance, str(one.most), hours, price, money)
    return table
