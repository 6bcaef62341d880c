"""The contract of engines whose stores are there already: a database that somebody else runs.

Storewise starts and stops no server of it. A trial makes tables of its own, whose names begin with
what no other trial has, and drops them at its end (`storewise.session.jobs.external`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from storewise.engines.contract.engine import Cluster, Engine


class ExternalEngine(Engine):
    """An engine whose store is neither embedded nor made of a session's nodes."""

    @abstractmethod
    def of_trial(self, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The settings of a trial's clients, which put its tables under a name of their own."""

    @abstractmethod
    def drop(self, cluster: Cluster) -> None:
        """Remove all that the trial has made; EngineError where that cannot be done."""

    @abstractmethod
    def server(self, cluster: Cluster) -> dict[str, str]:
        """What answers there and its version, for a result's conditions; no secrets."""
