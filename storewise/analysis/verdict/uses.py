"""What stores are used for mostly, each use a set of weights: the same score, other priorities.

The weights are judgements, shown beside the answer and movable on the page: the criterion that a
use is about weighs eight times as much as one that matters beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from storewise.analysis.verdict.criteria import Criterion
from storewise.analysis.verdict.scores import Counted, scores, usable, with_weights

MAIN, BESIDE = 8.0, 1.0
#: Stores that an answer names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class Use:
    """One use: a key, words after "if you mostly", and the weights of criteria.

    `about` are the criteria of which one must have been measured for two stores.
    """

    key: str
    words: str
    about: tuple[str, ...]
    weights: Mapping[str, float]


def _use(key: str, words: str, about: Sequence[str], beside: Sequence[str]) -> Use:
    weights = dict.fromkeys(about, MAIN / len(about)) | dict.fromkeys(beside, BESIDE)
    return Use(key, words, tuple(about), weights)


USES = (
    _use("look_up", "load once and look up by id", ["read"], ["load", "disk"]),
    _use("questions", "ask a biologist's questions", ["scan", "aggregate"], ["load", "disk"]),
    _use("write", "write from many clients at once", ["load"], ["scaling", "disk"]),
    _use("small", "keep it small", ["disk"], []),
    _use("crash", "must survive a crash", ["loss"], ["read", "slow_node"]),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer for one use: the stores that are first, and the weights as shares."""

    use: Use
    stores: tuple[str, ...]
    shares: Mapping[str, float]

    @property
    def words(self) -> str:
        """``SQLite or DuckDB``."""
        return names_of(self.stores)


def names_of(stores: Sequence[str]) -> str:
    """Stores of which any will do: ``SQLite``, ``SQLite or DuckDB``, ``A, B or 3 others``."""
    if len(stores) <= NAMED:
        return " or ".join([", ".join(stores[:-1]), stores[-1]] if stores[1:] else stores)
    return f"{', '.join(stores[: NAMED - 1])} or {len(stores) - NAMED + 1} others"


def choices(
    criteria: Sequence[Criterion], counted: Sequence[Counted], *, clients: int
) -> list[Choice]:
    """The answer for each use about which something was measured.

    `clients` is the greatest number of clients that loaded at once: of one alone nothing follows
    for many.
    """
    several = {one.name for one in criteria if len(one.stores) > 1}
    answers = []
    for use in USES:
        if not several & set(use.about) or (use.key == "write" and clients < 2):
            continue
        used = usable(with_weights(counted, use.weights))
        ranked = scores(used)
        total = sum(one.weight for one in used)
        shares = {one.name: one.weight / total for one in used}
        stores = tuple(one.choice for one in ranked if one.rank == 1)
        if stores and set(shares) & set(use.about):
            answers.append(Choice(use, stores, shares))
    return answers
