"""The cost of a study before it runs: host hours and money, with all assumptions.

Trials run in sequence (`live_sessions` at a time). Each has its own host for every server and every
worker during its lifetime. A range takes all uncertain values at their lowest, or at their highest:
it is not a confidence interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storewise import layout
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.estimate.work import DEFAULT, Amount, Probe, Rates, Work, documents_of, work_of
from storewise.study.host_classes import WORK, NodeClass, class_named
from storewise.study.prices import HostPrice
from storewise.study.study import Study
from storewise.study.trial import Trial, node_jobs
from storewise.workloads.registry import workload

HOUR = 3600.0
#: Seconds of a trial beside its phases, with servers and without: these start and form their
#: cluster, jobs follow each other, what was stored is verified.
ON_A_CLUSTER = {True: Amount.within(180, 2), False: Amount.within(45, 2)}
#: ... and on the machine that one sits at, without a scheduler.
HERE = {True: Amount.within(15, 2), False: Amount.within(5, 2)}
#: Seconds in which a cloud's host starts, and those for which it then waits idle
#: (``ScaledownIdletime`` of AWS ParallelCluster: 10 minutes).
START_UP, IDLE = 240.0, 600.0
#: Most hosts of a cloud are there from the trial before: of both that is paid for each host of a
#: trial a quarter, from none to all of it. Played through, the shipped studies took 5 to 37 %.
WAITING = Amount((START_UP + IDLE) / 4, 0.0, START_UP + IDLE)


class TooExpensive(StorewiseError):
    """The estimate of a run is above the study's `max_cost`, or its hosts have no price."""


@dataclass(frozen=True, slots=True)
class Line:
    """The hosts of one class: the most that a trial uses, their hours and their cost."""

    name: str
    place: NodeClass | None
    most: int
    hours: Amount
    price: HostPrice | None
    money: Amount | None


@dataclass(frozen=True, slots=True)
class EngineLine:
    """The trials of one engine: their number, and the seconds of one."""

    engine: str
    trials: int
    seconds: Amount


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a study: the work that is left, its hosts, and the assumptions.

    `seconds` is how long it takes. `guessed`: some rates are defaults. `unpriced` are types of
    instances that have no price and cost what any host does.
    """

    study: str
    trials: int
    measured: int
    engines: Sequence[EngineLine]
    seconds: Amount
    lines: Sequence[Line]
    money: Amount | None
    currency: str
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
    here: bool = False,
    probe: Probe | None = None,
) -> Estimate:
    """The cost of measuring `trials` of a study.

    `classes` are those of the profile (`host_classes.parse_classes`), empty where it has none;
    `results` is the study's directory of results. With `here` all trials run on this machine; then
    `probe` has rates from a short test, for what was never measured. Raises ConfigError for an
    unknown class.
    """
    reads = workload(study.workload).reads_inputs
    documents = documents_of(study, results) if reads and trials else None
    rates = Rates(results, probe)
    works = {trial.id: work_of(trial, documents, rates) for trial in trials}
    beside = HERE if here else ON_A_CLUSTER
    lengths = {
        trial.id: Amount.total([works[trial.id].seconds, beside[bool(node_jobs(trial))]])
        for trial in trials
    }
    one_host = study.embedded == "one_host"
    hosts = {t.id: {WORK: 1} if here else hosts_of(t, one_host=one_host) for t in trials}
    names = {name for needed in hosts.values() for name in needed}
    places: dict[str, NodeClass | None] = {}
    for name in sorted(names, key=lambda name: (name == WORK, name)):  # servers first
        # A profile may know classes of servers' hosts only; workers are then where its default is.
        known = classes and (name != WORK or WORK in classes)
        places[name] = class_named(name, classes) if known else None
    cloud = any(place is not None and place.instance for place in places.values())
    lines = [_line(name, place, study, lengths, hosts, cloud) for name, place in places.items()]
    prices, at_once = study.prices, max(1, min(study.live_sessions, len(trials)))
    return Estimate(
        study=study.name,
        trials=len(trials),
        measured=len(study.trials()) - len(trials),
        engines=list(_by_engine(trials, lengths)),
        seconds=Amount.total(list(lengths.values())).times(1 / at_once),
        lines=lines,
        money=Amount.total([line.money for line in lines if line.money]) if prices else None,
        currency=prices.currency if prices else "",
        cloud=cloud,
        unpriced=sorted(
            f"{place.instance} {place.market.replace('_', ' ')}"
            for place in {place for place in places.values() if place and place.instance}
            if prices and not prices.knows(place.instance, place.market)
        ),
        guessed=any(r.source == DEFAULT for one in works.values() for r in one.rates.values()),
        assumptions=[
            *_of_work(works.values(), documents),
            *_of_hosts(study, trials, beside, cloud=cloud, here=here),
        ],
    )


def _line(
    name: str,
    place: NodeClass | None,
    study: Study,
    lengths: Mapping[str, Amount],
    hosts: Mapping[str, Mapping[str, int]],
    cloud: bool,
) -> Line:
    numbers = {trial: needed.get(name, 0) for trial, needed in hosts.items()}
    paid = [lengths[trial].times(n / HOUR) for trial, n in numbers.items()]
    if cloud:
        paid.append(WAITING.times(sum(numbers.values()) / HOUR))
    hours, price = Amount.total(paid), None
    if study.prices is not None:
        instance, market = (place.instance, place.market) if place else ("", "on_demand")
        price = study.prices.host("client" if name == WORK else "node", instance, market)
    money = hours.times(price.hour) if price is not None else None
    return Line(name, place, max(numbers.values()), hours, price, money)


def hosts_of(trial: Trial, *, one_host: bool) -> dict[str, int]:
    """The number of hosts of each class for a trial: one per server and one per worker.

    Embedded stores with `one_host` use one for all workers.
    """
    servers = len(node_jobs(trial))
    if not servers:
        alone = one_host and not engine(trial.engine).flags.nodes
        return {WORK: 1 if alone else trial.workers}
    if trial.node_class == WORK:
        return {WORK: servers + trial.workers}
    return {trial.node_class: servers, WORK: trial.workers}


def refuse_above(expected: Estimate, limit: float | None) -> None:
    """Raise TooExpensive, with the estimate, if it is above the study's `max_cost` or has no
    price."""
    if limit is None or expected.money is None:
        return
    if expected.unpriced:
        raise TooExpensive(
            f"study {expected.study} has a max_cost, and there is no price of its hosts: "
            f"{', '.join(expected.unpriced)}. Nothing was started. Give the price of an hour under "
            "`instances` in config/prices.yaml or in the study's prices"
        )
    if expected.money.mean > limit:
        raise TooExpensive(
            f"study {expected.study}: what is still to be measured ({expected.trials} trials) "
            f"would cost about {expected.money.text(money_text)} {expected.currency}, more than "
            f"its max_cost of {money_text(limit)} {expected.currency}. Nothing was started. "
            "`storewise cost` shows what is assumed; measure less, or raise max_cost"
        )


def money_text(amount: float) -> str:
    """An amount of money as text: with cents; amounts below one with two significant digits."""
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"


def _by_engine(trials: Sequence[Trial], lengths: Mapping[str, Amount]) -> Iterator[EngineLine]:
    for name in sorted({trial.engine for trial in trials}):
        mine = [lengths[trial.id] for trial in trials if trial.engine == name]
        yield EngineLine(name, len(mine), Amount.total(mine).times(1 / len(mine)))


def _of_work(works: Iterable[Work], documents: Amount | None) -> Iterator[tuple[str, str]]:
    """The assumptions about times of phases, as (term, sentence)."""
    if documents is not None:
        yield "documents", f"{documents.text()}; {documents.source}"
    by_source: dict[tuple[str, str], list[Amount]] = {}
    for phase, rate in (one for work in works for one in work.rates.items()):
        by_source.setdefault((phase, rate.source), []).append(rate)
    for (phase, source), rates in by_source.items():
        low, high = min(rate.low for rate in rates), max(rate.high for rate in rates)
        number = "1 trial" if len(rates) == 1 else f"{len(rates)} trials"
        yield f"rate of {phase}", f"{low:,.0f} to {high:,.0f} a second in {number}; {source}"


def _of_hosts(
    study: Study,
    trials: Sequence[Trial],
    beside: Mapping[bool, Amount],
    *,
    cloud: bool,
    here: bool,
) -> Iterator[tuple[str, str]]:
    """The assumptions about hours and money, as (term, sentence)."""
    for servers in sorted({bool(node_jobs(trial)) for trial in trials}, reverse=True):
        which = f"a trial {'with' if servers else 'without'} servers"
        yield f"beside the phases of {which}", f"{beside[servers].text()} s, to start, verify, end"
    each = "one for each server and each worker, as long as the trial lives"
    yield "hosts", "this machine, for one trial after the other" if here else each
    if cloud:
        words = f"{START_UP:g} s to start and {IDLE:g} s idle are paid, mostly for several trials"
        yield "hosts of a cloud", f"{words}: {WAITING.text()} s for each host of a trial"
    if study.prices is not None and study.prices.source:
        yield "prices", study.prices.source
    others = [f"the own hosts of {name}" for name in study.engines if engine(name).flags.external]
    on_a_cluster = "head node, disks, shared file system, S3, traffic, listing, analysis"
    rest = "reading the inputs once, analysis, page" if here else on_a_cluster
    yield "not counted", ", ".join(["failed attempts", *others, rest])


def still_to_measure(study: Study, results: Path) -> list[Trial]:
    """The trials that have no complete results and have not been given up."""
    top, done = results / layout.TRIALS, (layout.VERIFIED, layout.FAILED)
    return [
        trial
        for trial in study.trials()
        if not any((top / trial.id / name).exists() for name in done)
    ]
