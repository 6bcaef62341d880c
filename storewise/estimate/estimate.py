"""What a study will cost before it runs: hours of hosts and money, with all that is assumed.

Trials run one after another (`live_sessions` at a time) in the study's order. Each has a host of
its own for every server and every worker for as long as it lives; hosts of a cloud start before,
stay for the next trial, and end when they have been idle for a while (`estimate_hosts`). A range
takes all that is uncertain at its lowest, or at its highest, at once: no interval of a statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from storewise import layout
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.estimate.host_hours import HOUR, Stay, Use, occupied
from storewise.estimate.work import (
    DEFAULT,
    DEFAULT_FACTOR,
    Amount,
    Probe,
    Rates,
    Work,
    documents_of,
    work_of,
)
from storewise.study.host_classes import WORK, NodeClass, class_named
from storewise.study.prices import HostPrice, Prices
from storewise.study.study import Study
from storewise.study.trial import Trial, node_jobs
from storewise.workloads.registry import workload

#: Seconds of a trial beside its phases: servers start and form their cluster, jobs follow each
#: other, what was stored is verified; for embedded stores, which have no servers.
WITH_SERVERS = Amount.within(180, 2.0, "")
EMBEDDED = Amount.within(45, 2.0, "")
#: ... and on the machine that one sits at, without a scheduler.
WITH_SERVERS_HERE = Amount.within(15, 2.0, "")
EMBEDDED_HERE = Amount.within(5, 2.0, "")
#: Seconds in which a cloud's host starts, and those for which it then waits idle
#: (``ScaledownIdletime`` of AWS ParallelCluster: 10 minutes).
START_UP = Amount.within(240, 1.5, "")
IDLE = 600.0


class TooExpensive(StorewiseError):
    """A run whose estimate is above the study's `max_cost`, or knows no price of its hosts."""


@dataclass(frozen=True, slots=True)
class Line:
    """The hosts of one class: what they are used for, and what that costs.

    `kind` says whether servers run on them. Hours and money have a range.
    """

    name: str
    place: NodeClass | None
    kind: str
    use: Use
    price: HostPrice | None
    hours: Amount
    money: Amount | None


@dataclass(frozen=True, slots=True)
class EngineLine:
    """The trials of one engine: how many, hosts of one (fewest and most), hours that one takes."""

    engine: str
    trials: int
    hosts: tuple[int, int]
    hours: Amount


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is still to be measured of a study, its hosts, and what was assumed.

    `seconds` is how long it takes, `spot` the share of spot instances of all hours of hosts, which
    `cloud` says are a cloud's. `guessed`: some rates are defaults.
    `unpriced` are types of instances that have no price and cost what any host does.
    """

    study: str
    trials: int
    measured: int
    lines: Sequence[Line]
    engines: Sequence[EngineLine]
    seconds: Amount
    hours: Amount
    money: Amount | None
    currency: str
    spot: float
    cloud: bool
    unpriced: Sequence[str]
    guessed: bool
    assumptions: Sequence[tuple[str, str]]


def estimate(
    study: Study,
    trials: Sequence[Trial],
    classes: Mapping[str, NodeClass],
    results: Path,
    *,
    start_up: Amount = START_UP,
    idle: float = IDLE,
    here: bool = False,
    probe: Probe | None = None,
) -> Estimate:
    """The cost of measuring `trials` of a study.

    `classes` are those of the profile (`nodeclasses.parse_classes`), empty where it has none;
    `results` is the study's directory of results. With `here` all of it is done on this machine,
    where `probe` may have tried out the rates that nobody has measured. Raises ConfigError for a
    class that is not known.
    """
    reads = workload(study.workload).reads_inputs
    documents = documents_of(study, results) if reads and trials else None
    rates = Rates(results, sorted({name for trial in trials for name in trial.factors}), probe)
    works = {trial.id: work_of(trial, documents, rates) for trial in trials}
    lengths = {
        trial.id: Amount.total([works[trial.id].seconds, _beside(trial, here)]) for trial in trials
    }
    one_host = study.embedded == "one_host"
    hosts = {
        trial.id: {WORK: 1} if here else hosts_of(trial, one_host=one_host) for trial in trials
    }
    names = {name for needed in hosts.values() for name in needed}
    used = sorted(names, key=lambda name: (name == WORK, name))  # servers first
    # A profile may know classes of servers' hosts only; workers are then where its default is.
    known = {name for name in used if classes and (name != WORK or WORK in classes)}
    places = {name: class_named(name, classes) if name in known else None for name in used}
    cloud = any(place is not None and place.instance for place in places.values())

    def simulated(which: str) -> tuple[dict[str, Use], float]:
        stays = [Stay(getattr(lengths[trial.id], which), hosts[trial.id]) for trial in trials]
        wait = getattr(start_up, which) if cloud else 0.0
        lanes = study.live_sessions
        return occupied(stays, lanes=lanes, start_up=wait, idle=idle if cloud else 0.0)

    (low, fast), (mean, usual), (high, slow) = map(simulated, ("low", "mean", "high"))
    lines = [
        _line(name, places[name], study.prices, low[name], mean[name], high[name]) for name in used
    ]
    hours = Amount.total([line.hours for line in lines])
    money = [line.money for line in lines if line.money is not None]
    of_spot = math.fsum(
        line.hours.mean for line in lines if line.place is not None and line.place.market == "spot"
    )
    return Estimate(
        study=study.name,
        trials=len(trials),
        measured=len(study.trials()) - len(trials),
        lines=lines,
        engines=_by_engine(trials, lengths, hosts),
        seconds=Amount(usual, fast, slow, ""),
        hours=hours,
        money=Amount.total(money) if study.prices is not None else None,
        currency=study.prices.currency if study.prices is not None else "",
        spot=of_spot / hours.mean if hours.mean else 0.0,
        cloud=cloud,
        guessed=any(
            rate.source == DEFAULT for one in works.values() for rate in one.rates.values()
        ),
        unpriced=_unpriced(study.prices, places.values()),
        assumptions=_assumptions(
            study, trials, works, documents, lines, start_up, idle, cloud, here
        ),
    )


def hosts_of(trial: Trial, *, one_host: bool) -> dict[str, int]:
    """How many hosts of each class a trial takes: one for each server and each worker.

    Embedded stores of `one_host` have one for all workers.
    """
    servers = len(node_jobs(trial))
    alone = one_host and not engine(trial.engine).flags.nodes
    workers = 1 if alone else trial.workers
    if not servers:
        return {WORK: workers}
    same = trial.node_class == WORK
    return {WORK: servers + workers} if same else {trial.node_class: servers, WORK: workers}


def refuse_above(expected: Estimate, limit: float | None) -> None:
    """Raise TooExpensive, with the estimate, where it is above a study's `max_cost`, or where that
    cannot be told."""
    if limit is None or expected.money is None:
        return
    if expected.unpriced:
        raise TooExpensive(
            f"study {expected.study} has a max_cost, and there is no price of its hosts: "
            f"{', '.join(expected.unpriced)}. Nothing was started. Give the price of an hour under "
            "`instances` in config/prices.yaml or in the study's prices"
        )
    if expected.money.mean <= limit:
        return
    lines = "".join(
        f"\n  {line.name}: {line.hours.mean:,.1f} hours of hosts by {line.price.basis}, "
        f"{money_text(line.money.mean)} {expected.currency}"
        for line in expected.lines
        if line.price is not None and line.money is not None
    )
    trials = "1 trial" if expected.trials == 1 else f"{expected.trials} trials"
    raise TooExpensive(
        f"study {expected.study}: what is still to be measured ({trials}) would cost about "
        f"{amount_text(expected.money, money_text)} {expected.currency}, more than its max_cost of "
        f"{money_text(limit)} {expected.currency}. Nothing was started.{lines}\n"
        "`storewise cost` shows what is assumed; measure less, or raise max_cost"
    )


def money_text(amount: float) -> str:
    """An amount of money: cents, and what is less than one with two digits."""
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"


def amount_text(amount: Amount, shown: Callable[[float], str] = "{:,.0f}".format) -> str:
    """``12.50 (8.00 to 20.00)``, or the number alone where there is no range."""
    if math.isclose(amount.low, amount.high):
        return shown(amount.mean)
    return f"{shown(amount.mean)} ({shown(amount.low)} to {shown(amount.high)})"


def _unpriced(prices: Prices | None, places: Iterable[NodeClass | None]) -> list[str]:
    """Types of instances without a price, and how they are bought."""
    return sorted(
        f"{place.instance} {place.market.replace('_', ' ')}"
        for place in {place for place in places if place is not None and place.instance}
        if prices is not None and not prices.knows(place.instance, place.market)
    )


def _beside(trial: Trial, here: bool) -> Amount:
    """Seconds of a trial beside its phases."""
    if node_jobs(trial):
        return WITH_SERVERS_HERE if here else WITH_SERVERS
    return EMBEDDED_HERE if here else EMBEDDED


def _line(
    name: str, place: NodeClass | None, prices: Prices | None, low: Use, mean: Use, high: Use
) -> Line:
    kind: Literal["node", "client"] = "client" if name == WORK else "node"
    hours = Amount(mean.hours, min(low.hours, mean.hours), max(high.hours, mean.hours), "")
    price = None
    if prices is not None:
        instance, market = (place.instance, place.market) if place else ("", "on_demand")
        price = prices.host(kind, instance, market)
    money = hours.times(price.hour) if price is not None else None
    return Line(name, place, kind, mean, price, hours, money)


def _by_engine(
    trials: Sequence[Trial],
    lengths: Mapping[str, Amount],
    hosts: Mapping[str, Mapping[str, int]],
) -> list[EngineLine]:
    lines = []
    for name in sorted({trial.engine for trial in trials}):
        of_engine = [trial.id for trial in trials if trial.engine == name]
        numbers = [sum(hosts[one].values()) for one in of_engine]
        hours = Amount.total([lengths[one] for one in of_engine]).times(1 / HOUR / len(of_engine))
        lines.append(EngineLine(name, len(of_engine), (min(numbers), max(numbers)), hours))
    return lines


def _assumptions(
    study: Study,
    trials: Sequence[Trial],
    works: Mapping[str, Work],
    documents: Amount | None,
    lines: Sequence[Line],
    start_up: Amount,
    idle: float,
    cloud: bool,
    here: bool,
) -> list[tuple[str, str]]:
    """Everything that the estimate takes for granted, as a term and a sentence."""
    terms: list[tuple[str, str]] = []
    if documents is not None:
        terms.append(("documents", f"{amount_text(documents)}; {documents.source}"))
    for phase in dict.fromkeys(name for trial in trials for name in works[trial.id].rates):
        rates = [work.rates[phase] for work in works.values() if phase in work.rates]
        for source in dict.fromkeys(rate.source for rate in rates):
            same = [rate for rate in rates if rate.source == source]
            terms.append((f"rate of {phase}", _rate_text(same, len(rates))))
    kinds = {bool(node_jobs(trial)): _beside(trial, here) for trial in trials}
    beside = [
        f"{amount_text(amount)} s of each trial {'with' if servers else 'without'} servers"
        for servers, amount in sorted(kinds.items(), reverse=True)
    ]
    terms.append(("beside the phases", ", ".join(beside) + ", to start, verify and end"))
    where = (
        "this machine, for one trial after the other"
        if here
        else "one for each server and each worker, as long as the trial lives"
    )
    terms.append(("hosts", where))
    if outside := sorted({t.engine for t in trials if engine(t.engine).flags.external}):
        terms.append(("databases", f"the own hosts of {', '.join(outside)} are not counted"))
    if cloud:
        terms.append(("start-up of hosts", f"{amount_text(start_up)} s, paid"))
        terms.append(("idle hosts", f"end after {idle:g} s; paid until then"))
    attempts = (
        "none (a spot interruption or a lost host costs its trial once more, as often as "
        f"`retries` allows: {study.retries})"
    )
    terms.append(("failed attempts", attempts))
    for line in lines:
        if line.price is not None:
            text = f"{line.price.hour:g} {study.prices.currency if study.prices else ''}"
            terms.append((f"an hour of {line.name}", f"{text} ({line.price.basis})"))
    if study.prices is not None and study.prices.source:
        terms.append(("prices", study.prices.source))
    if here:
        return [*terms, ("not counted", "reading the inputs once, analysis and the page")]
    left_out = "head node, disks, shared file system, S3, traffic, listing, analysis"
    return [*terms, ("not counted", left_out)]


def _rate_text(rates: Sequence[Amount], every: int) -> str:
    low, high = min(rate.low for rate in rates), max(rate.high for rate in rates)
    least, most = min(rate.mean for rate in rates), max(rate.mean for rate in rates)
    mean = f"{least:,.0f}" if math.isclose(least, most) else f"{least:,.0f} to {most:,.0f}"
    source = rates[0].source
    if source == DEFAULT:
        source = (
            f"a default for any engine and number of nodes, {DEFAULT_FACTOR:g} times more or less, "
            "as nothing was measured yet"
        )
    return (
        f"{mean} a second ({low:,.0f} to {high:,.0f}) in {len(rates)} of {every} trials; {source}"
    )


def still_to_measure(study: Study, results: Path) -> list[Trial]:
    """The trials without complete results that have not been given up."""
    top, done = results / layout.TRIALS, (layout.VERIFIED, layout.FAILED)
    return [
        trial
        for trial in study.trials()
        if not any((top / trial.id / name).exists() for name in done)
    ]
