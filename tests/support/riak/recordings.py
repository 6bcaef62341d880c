"""What a real Riak said and did (`tests/data/riak`), for the stand-in to say and do."""

import json
from functools import cache

from support.paths import DATA

RIAK = DATA / "riak"


@cache
def records(file):
    """Of `one_node` or `three_nodes`."""
    return tuple(json.loads((RIAK / f"{file}.json").read_text())["records"])


def recorded(title, containing=""):
    """The first record of that title, whose output contains some words."""
    result = (r for file in ("one_node", "three_nodes") for r in records(file))
    return next(r for r in result if r["title"] == title and containing in r.get("stdout", ""))


def all_recorded(title):
    """All records of that title, in their order."""
    return [r for file in ("one_node", "three_nodes") for r in records(file) if r["title"] == title]
