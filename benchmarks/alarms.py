"""False alarms: how often chance alone raises each warning of a study.

    python benchmarks/alarms.py [--seed N] [--studies 300]

Quiet studies have 15, 60 or 500 trials: five stores in three rounds, with one phase of 10 s. All
that is measured spreads log-normally by 3, 10 or 25 % (standard deviation over mean), or by 25 %
with errors of Student's t of 3 degrees of freedom. The machine is the same all the time, and has
other work for 5 % of its processors' time on average (exponential); the trial's own work takes any
part of the rest. The client alone (`null`) is twice as fast as any store, and has 5 % of the time
to itself.

Without --seed each run has new studies.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.judge.bottlenecks import NONE, HostUse, busy_hosts, causes
from storewise.analysis.judge.client_bound import bound_warnings, client_bound
from storewise.analysis.measure.host_load import canary_warnings
from storewise.analysis.measure.throughput import short_phases
from storewise.analysis.model.tables import Tables

TRIALS, STORES, ROUNDS = (15, 60, 500), 5, 3
#: Spread, and whether errors have Student's t.
SPREADS = ((0.03, False), (0.10, False), (0.25, False), (0.25, True))
#: Largest share of quiet studies that an alarm may be raised in.
TARGET = 0.05

Noise = Callable[[int], npt.NDArray[np.float64]]


def noise_of(rng: np.random.Generator, spread: float, *, heavy: bool) -> Noise:
    """A function that draws random factors about 1, the relative errors of figures."""
    sd = np.sqrt(np.log1p(spread**2))
    if heavy:
        return lambda n: np.exp(sd * rng.standard_t(3, n) / np.sqrt(3))
    return lambda n: np.exp(sd * rng.standard_normal(n))


def unsteady(n: int, noise: Noise) -> list[StudyWarning]:
    """Warnings from a simulated canary of hosts with clients, and of nodes' hosts."""
    metrics = ("canary_cpu", "canary_disk_read", "canary_disk_write")
    rows = [(metric, by, 1e5 * value, "1/s") for metric in metrics for by in ("read", "session")
            for value in noise(n)]  # fmt: skip
    return canary_warnings(pd.DataFrame(rows, columns=["metric", "phase", "mean", "unit"]))


def busy(n: int, noise: Noise, rng: np.random.Generator) -> list[StudyWarning]:
    """Warnings from simulated CPU loads, of which the trial's own share is measured apart."""
    other = np.minimum(1.0, rng.exponential(0.05, n))
    own = rng.random(n) * (1 - other)
    rows = []
    for o, mine, seen in zip(other, own, np.minimum(1.0, own * noise(n)), strict=True):
        found = causes(HostUse("h", cpu=o + mine, own_cpu=seen, clients=True))
        rows.append((found[0].kind if found else NONE, "", "h"))
    return busy_hosts(pd.DataFrame(rows, columns=["limited_by", "also", "host"]))


def bound(n: int, noise: Noise) -> list[StudyWarning]:
    """Warnings from simulated rates of five stores and of the client alone."""
    levels = max(1, n // STORES // ROUNDS)
    trials = pd.DataFrame(
        itertools.product([f"store {i}" for i in range(STORES)], range(levels), range(ROUNDS)),
        columns=["engine", "workers", "repeat"],
    )
    trials["trial"] = [f"t{i}" for i in trials.index]
    place = {"phase": "read", "step": 0}
    means = {"operations_per_s": 500.0, "client_share": 0.05}
    rates = pd.concat(
        trials[["trial"]].assign(**place, measure=measure, value=mean * noise(len(trials)))
        for measure, mean in means.items()
    )
    alone = 1000 * noise(levels * ROUNDS).reshape(levels, ROUNDS).mean(axis=1)
    ceiling = pd.DataFrame({"workers": range(levels), "mean": alone})
    ceiling = ceiling.assign(engine="null", measure="operations_per_s", **place)
    made = SimpleNamespace(
        trials=trials,
        throughput=rates.assign(rate=np.nan),
        rates=ceiling,
        host=pd.DataFrame(columns=["trial", "phase", "step", "metric", "mean"]),
        results=SimpleNamespace(factors=["engine", "workers"]),
    )
    tables = cast(Tables, made)
    return bound_warnings(client_bound(tables), tables)


def short(n: int, noise: Noise) -> list[StudyWarning]:
    """Warnings from simulated durations of phases."""
    walls = {"phase": "read", "measure": "duration", "value": 10 * noise(n)}
    return short_phases(pd.DataFrame(walls))


def raised(rng: np.random.Generator, studies: int, trials: int) -> pd.DataFrame:
    """For each spread: the share of simulated studies that raise each alarm."""
    shares: dict[str, dict[str, float]] = {}
    for spread, heavy in SPREADS:
        noise = noise_of(rng, spread, heavy=heavy)
        alarms: dict[str, Callable[[], Any]] = {
            "unsteady_host": lambda noise=noise: unsteady(trials, noise),
            "busy_host": lambda noise=noise: busy(trials, noise, rng),
            "client_bound": lambda noise=noise: bound(trials, noise),
            "short_phase": lambda noise=noise: short(trials, noise),
        }
        shares[f"{spread:.0%}{', heavy tails' if heavy else ''}"] = {
            code: float(np.mean([bool(alarm()) for _ in range(studies)]))
            for code, alarm in alarms.items()
        }
    return pd.DataFrame(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--studies", type=int, default=300, help="of each kind")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    for trials in TRIALS:
        table = raised(rng, arguments.studies, trials)
        print(f"{trials} trials: share of quiet studies with an alarm, % (at most {TARGET:.0%})")
        print((100 * table).round(1).to_string(), "\n")
    print(f"seed {arguments.seed}")


if __name__ == "__main__":
    main()
