"""What a workload's client knows of its place, for tests that run clients without a driver."""

from storewise.engines.contract.engine import Schema
from storewise.workloads.contract import ClientContext


def make_context(engine, kinds, params, **values):
    """The only client of a phase, but for what `values` say."""
    return ClientContext(
        engine=engine, schema=Schema(tuple(kinds)), params=params, **place_of(values)
    )


def place_of(values):
    """`values` with a place; client numbers go on from one process to the next."""
    known = {"shard": 0, "processes": 1, "thread": 0, "threads": 1, "seed": 1, "shards": None}
    known |= values
    number = known["shard"] * known["threads"] + known["thread"]
    return {"client": number, "clients": known["processes"] * known["threads"], **known}
