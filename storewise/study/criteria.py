"""What stores are judged by: the columns of the verdict and the keys of a study's `weights`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CriterionName:
    """One criterion: its key in a study, its words, the unit of its figure and what is better."""

    key: str
    title: str
    short: str
    """Over a narrow column, in a user's words."""
    unit: str
    more: bool
    """Whether more is better."""
    least: float = 0.0
    """Figures below this count as this in scores, which are made of ratios: no store is endlessly
    better because it needs no servers, or lost nothing."""
    default: float = 1.0
    """Its weight where the study gives none."""


#: A unit that is counted, and said by the title.
INODES = "inodes"

#: In the order of the verdict's columns.
CRITERIA = (
    CriterionName("load", "loading", "load", "documents/s", True),
    CriterionName("read", "reading", "look up", "operations/s", True),
    CriterionName("scan", "scanning", "scan", "operations/s", True),
    CriterionName("aggregate", "aggregation", "count", "operations/s", True),
    CriterionName("latency", "latency at load", "slowest 1 %", "s", False),
    CriterionName("scaling", "scaling", "scaling", "1", True),
    CriterionName("slow_node", "rate with a slow node", "slow node", "1", True),
    CriterionName("disk", "space on disk", "disk", "B/document", False),
    # Below ten thousand no quota is near, and three files are not a hundred times better than three
    # hundred. Who runs out of them sees it at once; to all others it matters little.
    CriterionName("inodes", "files and directories", "files", INODES, False, 10_000.0, 0.1),
    CriterionName("cost", "cost", "cost", "", False),
    # A minute once, where jobs wait for minutes, is nothing.
    CriterionName("setup", "time to set up", "set up", "s", False, 60.0),
    CriterionName("loss", "loss on a crash", "crash loss", "documents/crash", False, 1.0),
)
KEYS = tuple(one.key for one in CRITERIA)
BY_KEY = {one.key: one for one in CRITERIA}
