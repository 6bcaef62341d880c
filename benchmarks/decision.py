"""How often a decision is right: the rule of `storewise.analysis.decision` on simulated studies.

    python benchmarks/decision.py [--seed N] [--studies 1000] [--json FILE]

A study has 2 to 8 stores, 3 or 5 rounds, and two criteria of equal weight. Repeats are log-normal
with a spread (standard deviation over mean) of 3, 10 or 25 % for each criterion, and rounds differ
by 5 %. Beside that the machine is

    steady   or
    drift    30 % slower at the end of the study than at its begin,
    slow     30 % slower for a sixth of the study, somewhere
    heavy    steady, but errors have Student's t of 3 degrees of freedom, of the same variance
    unequal  steady, but one store spreads three times as much as the others

All stores are equal, or one is 1.05 to 5 times as good as the others, or they differ at random. A
cell is a machine, a spread, a number of rounds and one of stores. A cell in which equal stores were
told apart in more than 3.5 % is measured again with ten times as many new studies, so that the
worst of many cells is not the worst by chance. A figure that is off its target by at most twice its
standard error is ok.

Other lines go through tables, as a study does: stores that can choose from several deployments and
numbers of clients, and `compare` of two days. Without --seed each run has new studies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from storewise.analysis.decision import Criterion, compare, decide
from storewise.analysis.decision.decide import Judgement, judge
from storewise.analysis.decision.model import WORTH

Floats = npt.NDArray[np.float64]
MACHINES = ("steady", "drift", "slow", "heavy", "unequal")
SPREADS, ROUNDS, STORES = (0.03, 0.10, 0.25), (3, 5), (2, 3, 5, 8)
RATIOS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 5.0)
CRITERIA = 2
#: Share of equal stores told apart from which a cell is measured again, and how much longer.
SUSPECT, AGAIN = 0.035, 10


@dataclass(frozen=True)
class Line:
    """One line of the answer, in per cent; `error` is the standard error of the figure."""

    what: str
    share: float
    target: float
    error: float
    at_most: bool = True

    @property
    def ok(self) -> bool:
        excess = self.share - self.target if self.at_most else self.target - self.share
        return not excess > 2 * self.error  # also where there was nothing to measure


@dataclass(frozen=True)
class Cell:
    machine: str
    spread: float
    rounds: int
    stores: int

    def __str__(self) -> str:
        return f"{self.machine}, {self.spread:.0%}, {self.rounds} rounds, {self.stores} stores"


def errors(rng: np.random.Generator, cell: Cell, studies: int) -> Floats:
    """Errors of scores (studies x stores x rounds), natural logarithms."""
    shape = (studies, CRITERIA, cell.stores, cell.rounds)
    sd = np.sqrt(np.log1p(cell.spread**2))
    noise = rng.standard_normal(shape)
    if cell.machine == "heavy":
        noise = rng.standard_t(3, shape) / np.sqrt(3)
    if cell.machine == "unequal":
        noise[:, :, 0] *= 3
    score = (sd * noise).mean(axis=1) + 0.05 * rng.standard_normal((studies, 1, cell.rounds))
    # When a trial began, as a share of the study: rounds follow each other, each in random order.
    order = rng.random((studies, cell.stores, cell.rounds)).argsort(axis=1)
    begun = (np.arange(cell.rounds) + order / cell.stores) / cell.rounds
    if cell.machine == "drift":
        score -= np.log(1.3) * begun
    if cell.machine == "slow":
        start = rng.random((studies, 1, 1)) * 5 / 6
        score -= np.log(1.3) * ((begun >= start) & (begun < start + 1 / 6))
    return score


def cells() -> Iterator[Cell]:
    for place in itertools.product(MACHINES, SPREADS, ROUNDS, STORES):
        yield Cell(*place)


def told_apart(found: Judgement) -> bool:
    return not bool(found.named.all())


def alone(found: Judgement) -> bool:
    return int(found.named.sum()) == 1


def shares(rng: np.random.Generator, cell: Cell, studies: int) -> Floats:
    """Of equal stores: the shares of studies in which any was left out, and one recommended."""
    found = [judge(one) for one in errors(rng, cell, studies)]
    return np.mean([(told_apart(one), alone(one)) for one in found], axis=0)


def equal(rng: np.random.Generator, studies: int) -> list[Line]:
    """Lines about equal stores: how often the rule calls them different."""
    found = []
    for cell in cells():
        n, both = studies, shares(rng, cell, studies)
        if both.max() > SUSPECT:
            n *= AGAIN
            both = shares(rng, cell, n)
        found.append((both, n, cell))
    lines = []
    for i, words in enumerate(("any left out", "one recommended")):
        mean = float(np.mean([both[i] for both, _, _ in found]))
        worst, n, cell = max(found, key=lambda one: one[0][i])
        error = np.sqrt(0.05 * 0.95 / n)
        lines += [
            Line(f"equal stores, {words}: mean of {len(found)} cells", mean, 0.05, 0),
            Line(f"equal stores, {words}: worst ({cell})", float(worst[i]), 0.05, error),
        ]
    return lines


def truths(rng: np.random.Generator, stores: int) -> Iterator[tuple[str, Floats]]:
    """Names and true scores (natural logarithms) of simulated stores."""
    yield "equal", np.zeros(stores)
    for ratio in RATIOS:
        yield f"{ratio:g}", np.log(ratio) * (np.arange(stores) == 0)
    for _ in range(2):
        yield "mixed", rng.normal(0, 0.4, stores)


def studied(rng: np.random.Generator, studies: int) -> pd.DataFrame:
    """Decisions of simulated studies, one row each, of stores that are equal, better or mixed."""
    rows = []
    for cell in cells():
        for name, truth in truths(rng, cell.stores):
            lag = truth.max() - truth
            for scores in errors(rng, cell, studies) + truth[:, None]:
                found = judge(scores)
                far = bool(lag[found.named].max() > np.log(WORTH) + 1e-9)
                best = alone(found) and lag[found.best] == 0
                wrong = alone(found) and lag[found.best] >= np.log(WORTH) - 1e-9
                rows.append((*asdict(cell).values(), name, found.sure, not far, best, wrong))
    names = ["machine", "spread", "rounds", "stores", "truth", "sure", "right", "best", "wrong"]
    return pd.DataFrame(rows, columns=names)


def right(table: pd.DataFrame) -> list[Line]:
    """Lines about wrong recommendations, and about how often each level of `sure` was right."""
    lines = []
    better = table[table["truth"].isin([f"{r:g}" for r in RATIOS if r >= WORTH])]
    lines.append(Line("wrong, best 1.2 to 5 times as good: mean", better["wrong"].mean(), 0.005, 0))
    wrong = better.groupby(["machine", "spread", "rounds", "stores"])["wrong"].agg(["mean", "size"])
    worst = wrong["mean"].idxmax()
    error = np.sqrt(0.005 / wrong.loc[worst, "size"])
    words = f"the same: worst ({Cell(*worst)})"
    lines.append(Line(words, wrong["mean"].max(), 0.005, error))
    for sure, target in (("good", 0.99), ("fair", 0.90)):
        said = table[table["sure"] == sure]
        for machine in ("all machines", *MACHINES):
            of = said if machine not in MACHINES else said[said["machine"] == machine]
            error = np.sqrt(target * (1 - target) / len(of))
            words = f'"{sure}" is right, {machine} (said in {len(of) / len(table):.0%})'
            lines.append(Line(words, of["right"].mean(), target, error, at_most=False))
    return lines


def power(rng: np.random.Generator, studies: int) -> list[Line]:
    """Lines about how often the better store alone is recommended."""
    lines = []
    for ratio, spread, rounds, target in (
        *((1.5, 0.10, 3, 0.86), (1.5, 0.10, 5, 0.97), (1.5, 0.25, 3, 0.30), (1.5, 0.25, 5, 0.59)),
        (2.0, 0.25, 3, 0.73),
    ):
        shares = {}
        for machine, stores in itertools.product(MACHINES, STORES):
            scores = errors(rng, Cell(machine, spread, rounds, stores), studies)
            scores[:, 0] += np.log(ratio)
            found = [judge(one) for one in scores]
            shares[machine, stores] = np.mean([alone(one) and one.best == 0 for one in found])
        of_steady = np.mean([shares["steady", stores] for stores in STORES])
        words = f"{ratio:g} times as good, {spread:.0%}, {rounds} rounds: found"
        mean = float(np.mean(list(shares.values())))
        lines.append(Line(f"{words} (steady: {of_steady:.0%})", mean, target - 0.05, 0, False))
    cell = Cell("steady", 0.01, 5, 3)
    better = errors(rng, cell, studies) + np.log(1.05) * (np.arange(3) == 0)[:, None]
    taken = np.mean([alone(judge(one)) for one in better])
    return [*lines, Line('1.05 times as good, 1 %, 5 rounds: "Take X"', float(taken), 0.0, 0)]


def long_table(settings: Sequence[dict[str, Any]], logs: Floats) -> pd.DataFrame:
    """Table of measures from logarithms (settings x criteria x rounds)."""
    columns: dict[str, Any] = {name: [] for name in settings[0]}
    n = logs[0].size
    for setting in settings:
        for name, level in setting.items():
            columns[name] += [level] * n
    _, criterion, at = np.indices(logs.shape)
    criteria = np.array(["load", "read"])[criterion.ravel()]
    values = np.exp(logs.ravel())
    return pd.DataFrame({**columns, "criterion": criteria, "round": at.ravel(), "value": values})


#: Store -> numbers of nodes and of clients that it was measured with.
Grid = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
UNLIKE: Grid = {"a": ((1, 2, 4), (1, 4, 16, 64)), "b": ((1, 2), (1, 4)), "c": ((1,), (1,))}
ALIKE: Grid = dict.fromkeys("abc", ((1, 2, 4), (1, 8)))


def decisions(
    rng: np.random.Generator, grid: Grid, better: str, ratio: float, spread: float, studies: int
) -> pd.DataFrame:
    """Decisions of three rounds with stores judged at their best setting, of which one is better.
    Columns: alone (the recommended store, or nothing), named, sure."""
    settings = [
        {"store": store, "deployment": f"{nodes} nodes", "clients": str(clients)}
        for store, levels in grid.items()
        for nodes, clients in itertools.product(*levels)
    ]
    truth = np.log(ratio) * np.array([one["store"] == better for one in settings])
    rows = []
    for _ in range(studies):
        noise = spread * rng.standard_normal((len(settings), CRITERIA, 3))
        table = long_table(settings, noise + truth[:, None, None])
        decision = decide(table, {"load": Criterion(), "read": Criterion()})
        named = sorted(decision.table.index[decision.table["named"]])
        rows.append((named[0] if len(named) == 1 else "", named, decision.sure))
    return pd.DataFrame(rows, columns=["alone", "named", "sure"])


def chosen(rng: np.random.Generator, studies: int) -> list[Line]:
    """Lines about stores with several settings: does choosing the best of many settings make a
    store look better than it is, and does their number hide the better store?"""
    same = decisions(rng, UNLIKE, "", 1.0, 0.25, studies)
    error = np.sqrt(0.05 * 0.95 / studies)
    words = "equal stores of 12, 4, 1 settings, 25 %, 3 rounds"
    left_out = float((same["named"].map(len) < 3).mean())
    lines = [
        Line(f"{words}: any left out", left_out, 0.05, error),
        Line(f"{words}: one recommended", float((same["alone"] != "").mean()), 0.05, error),
    ]
    found = decisions(rng, ALIKE, "a", 1.5, 0.10, studies)["alone"] == "a"
    words = "1.5 times as good, 10 %, 3 rounds, 6 settings a store: found"
    error = np.sqrt(0.81 * 0.19 / studies)
    lines.append(Line(words, float(found.mean()), 0.81, error, at_most=False))
    ratios = (1.1, 1.25, 1.4, 1.6, 2.0)
    each = {r: decisions(rng, UNLIKE, "c", r, 0.10, max(1, studies // 5)) for r in ratios}
    every = pd.concat(each, names=["ratio", "study"])
    far = every.index.get_level_values("ratio") > WORTH
    right = ~far | every["named"].map(lambda named: named == ["c"])
    for sure, target in (("good", 0.99), ("fair", 0.90)):
        of = right[every["sure"] == sure]
        error = np.sqrt(target * (1 - target) / max(1, len(of)))
        words = f'"{sure}" is right, stores of 12, 4, 1 settings, 10 %, 3 rounds'
        lines.append(Line(words, float(of.mean()), target, error, at_most=False))
    return lines


def days(rng: np.random.Generator, studies: int) -> list[Line]:
    """Lines about two days of eight unchanged settings: how often any is called different."""
    lines = []
    error = np.sqrt(0.05 * 0.95 / studies)
    settings = [{"store": f"s{i}"} for i in range(8)]
    for day, spread in ((0.1, 0.03), (0.2, 0.03), (0.2, 0.10)):
        for words, controls in (("same rounds", None), ("4 controls", 4), ("no controls", 0)):
            false = []
            for _ in range(studies):
                old, new = spread * rng.standard_normal((2, 8, CRITERIA, 3))
                if controls is not None:
                    new += day * rng.choice([-1, 1]) + day / 2 * rng.standard_normal((8, 1, 1))
                sides = [
                    long_table([{"side": side, **s} for s in settings], logs)
                    for side, logs in (("old", old), ("new", new))
                ]
                table = pd.concat(sides, ignore_index=True)
                table["control"] = table["store"].isin([f"s{i}" for i in range(controls or 0)])
                told = compare(table, same_rounds=controls is None)["told"]
                false.append((told == "different").any())
            what = f"days differ by {day:.0%}, spread {spread:.0%}, {words}: called different"
            lines.append(Line(what, float(np.mean(false)), 0.05, error))
    return lines


def characteristics(seed: int, studies: int) -> list[Line]:
    """All lines; `studies` is the number of simulated studies for each."""
    rng = np.random.default_rng(seed)
    return [
        *equal(rng, studies),
        *right(studied(rng, max(1, studies // 20))),
        *power(rng, studies),
        *chosen(rng, max(10, studies // 3)),
        *days(rng, max(10, studies // 5)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--studies", type=int, default=1000, help="of a cell")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    lines = characteristics(arguments.seed, arguments.studies)
    print(f"{'':84}  share, %  target")
    for line in lines:
        sign = "<=" if line.at_most else ">="
        share_of = f"{100 * line.share:8.1f}  {sign} {100 * line.target:4.1f}"
        print(f"{line.what:84}  {share_of}  {'ok' if line.ok else 'missed'}")
    print(f"seed {arguments.seed}, {time.perf_counter() - begun:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    main()
