"""What a workload's client knows of its place, for tests that run clients without a driver."""

from storewise.engines.contract.engine import Schema
from storewise.workloads.contract import ClientContext

ALONE = dict.fromkeys(("worker", "process", "thread"), 0)
ALONE |= dict.fromkeys(("workers", "processes", "threads", "seed"), 1)


def make_context(engine, kinds, params, **values):
    """The only client of a phase, but for what `values` say."""
    known = {**ALONE, "shards": None, **values}
    return ClientContext(engine=engine, schema=Schema(tuple(kinds)), params=params, **known)
