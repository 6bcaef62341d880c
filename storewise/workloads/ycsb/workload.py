"""The Yahoo! Cloud Serving Benchmark: records under keys, core workloads A to F, and G.

Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010; G (one read to nine
inserts) is that of Altoros 2013. `docs/ycsb.md` says where this differs from the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Client, Placement, hash_placement
from storewise.workloads.contract import (
    Checked,
    ClientContext,
    Operation,
    PhaseSpec,
    VerifyContext,
    Workload,
)
from storewise.workloads.ycsb.operations import Run, load_records
from storewise.workloads.ycsb.params import (
    CORE_WORKLOADS,
    PROPORTIONS,
    LatestParams,
    LoadParams,
    MixedParams,
    RecordParams,
    RunParams,
    ScanParams,
    shares,
)
from storewise.workloads.ycsb.properties import resolve
from storewise.workloads.ycsb.verify import check_records


@cache
def usertable(fieldcount: int) -> Kind:
    """The one kind of records with so many fields."""
    values = (Field(f"field{i}", "str", "random text") for i in range(fieldcount))
    return Kind("usertable", (Field("_id", "key", "`user` and the record's hash"), *values))


def _needs(phase: str, params: RunParams) -> tuple[str, ...]:
    share = shares(phase, params)
    # An engine that cannot change a document is one whose store is closed after the load.
    changes = any(share[name] for name in ("update", "insert", "read-modify-write"))
    return (("updates",) if changes else ()) + (("scans",) if share["scan"] else ())


def _spec(name: str, params: type[RunParams] = RunParams) -> PhaseSpec:
    operations = tuple(CORE_WORKLOADS.get(name, PROPORTIONS))
    changes = not {"read", "scan"}.issuperset(operations)
    needs = partial(_needs, name)
    return PhaseSpec(name, params, operations, loads=False, changes=changes, needs=needs)


class YcsbWorkload(Workload):
    """``load`` makes the records; ``a`` to ``g`` and ``run`` work on them."""

    name: ClassVar[str] = "ycsb"
    reads_inputs: ClassVar[bool] = False
    phases: ClassVar[Mapping[str, PhaseSpec]] = {
        "load": PhaseSpec("load", LoadParams, ("insert", "finish"), loads=True),
        **{name: _spec(name) for name in CORE_WORKLOADS},
        "d": _spec("d", LatestParams),
        "e": _spec("e", ScanParams),
        "run": _spec("run", MixedParams),
    }

    def kinds(self, load: Mapping[str, Any]) -> tuple[Kind, ...]:
        return (usertable(LoadParams.model_validate(dict(load)).fieldcount),)

    def documents_made(self, load: Mapping[str, Any]) -> int:
        return LoadParams.model_validate(dict(load)).records

    def resolve(self, phase: str, params: Mapping[str, Any], base: Path) -> dict[str, Any]:
        """Parameters under their own names, with those of the property file that they name."""
        return resolve(phase, self.phases[phase].params, params, base)

    def clash(self, load: Any, params: Any) -> str | None:
        """Contradictions between a phase and the load."""
        for name in RecordParams.model_fields:
            mine, loaded = getattr(params, name), getattr(load, name)
            if name == "insertcount":
                loaded = load.records
            if name in params.model_fields_set and mine != loaded:
                return f"{name} is {mine}, but the records were loaded with {loaded}"
        return None

    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        kind = usertable(context.load.fieldcount)
        if phase == "load":
            return load_records(client, context, kind)
        return Run(client, context, kind).operations()

    def placement(self, stores: int, written: Sequence[Path]) -> Placement:
        return hash_placement(stores)

    def verify(self, context: VerifyContext) -> list[Checked]:
        return [check_records(context, context.kinds[0])]
