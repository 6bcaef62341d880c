"""The criteria of the verdict, which are the keys of a study's `weights`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CriterionName:
    """One criterion: its key in a study, its words, the unit of its figure and what is better."""

    key: str
    title: str
    about: str
    """What it means, in a few words."""
    unit: str
    more: bool
    """Whether more is better."""
    least: float = 0.0
    """Figures below this count as this in scores, which are made of ratios: no store is endlessly
    better because it needs no servers."""
    default: float = 1.0
    """Its weight where the study gives none."""


#: A unit that is counted, and said by the title.
INODES = "inodes"

#: In the order of the verdict's columns.
CRITERIA = (
    CriterionName("load", "load", "documents stored per second", "documents/s", True),
    CriterionName("read", "look up", "one document by its id or key", "operations/s", True),
    CriterionName("scan", "scan", "documents with some property", "operations/s", True),
    CriterionName("aggregate", "count", "numbers over all documents", "operations/s", True),
    CriterionName(
        "latency", "slowest 1 %", "time within which 99 % of the answers come", "s", False
    ),
    CriterionName("scaling", "scaling", "share of the ideal speed-up", "1", True),
    CriterionName(
        "slow_node", "slow node", "share of the rate that is left when a node is slow", "1", True
    ),
    CriterionName("disk", "size", "bytes on disk per document", "B/document", False),
    # Below ten thousand no quota is near, and three files are not a hundred times better than three
    # hundred. Who runs out of them sees it at once; to all others it matters little.
    CriterionName("inodes", "files", "files and directories", INODES, False, 10_000.0, 0.1),
    CriterionName("cost", "cost", "of a million documents", "", False),
    # A minute once, where jobs wait for minutes, is nothing.
    CriterionName("setup", "set up", "time until servers are ready", "s", False, 60.0),
)
KEYS = tuple(one.key for one in CRITERIA)
BY_KEY = {one.key: one for one in CRITERIA}
