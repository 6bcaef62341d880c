"""The one line per workload that adding a workload touches."""

from __future__ import annotations

from importlib import import_module

from storewise.errors import ConfigError
from storewise.workloads.contract import Workload

#: Workload name -> "module:class".
WORKLOADS: dict[str, str] = {
    "alignments": "storewise.workloads.alignments.workload:AlignmentsWorkload",
    "measures": "storewise.workloads.sensors.workload:MeasuresWorkload",
    "ycsb": "storewise.workloads.ycsb.workload:YcsbWorkload",
}


def workload(name: str) -> Workload:
    """The workload `name`; ConfigError with the existing names if there is none."""
    if name not in WORKLOADS:
        raise ConfigError(f"no workload is called {name!r}; known: {', '.join(sorted(WORKLOADS))}")
    module, _, cls = WORKLOADS[name].partition(":")
    instance = getattr(import_module(module), cls)()
    assert isinstance(instance, Workload)
    return instance
