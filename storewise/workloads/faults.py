"""Faults injected into servers during a step: nodes slowed down, or one killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

#: Fields of `Slow` that only one way of slowing knows.
OWN_FIELDS = {"file_mb": "disk", "processes": "cpu"}


def data_nodes(known: Sequence[str], roles: Sequence[str]) -> tuple[str, ...]:
    """The trial's nodes that hold documents: those with the first existing role of `roles`
    (`Engine.data_roles`), or all if none exists. ValueError for a trial without nodes."""
    if not known:
        raise ValueError(
            "an embedded or external engine has no nodes that could be slowed or killed"
        )
    for role in roles:
        if names := tuple(name for name in known if name.rstrip("0123456789") == role):
            return names
    return tuple(known)


class _Condition(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Slow(_Condition):
    """Nodes slowed on purpose for a step; started, checked and stopped by their own jobs."""

    how: Literal["disk", "cpu"]
    nodes: int = Field(default=1, ge=0, description="the first so many data nodes; 0: none")
    names: tuple[str, ...] = Field(default=(), description="these nodes instead, such as data2")
    file_mb: int = Field(
        default=2048,
        ge=1,
        description="disk: MiB of the file that a writer on the node's data disk writes again and "
        "again, with fsync",
    )
    processes: int | None = Field(
        default=None, ge=1, description="cpu: busy processes; as many as the host has processors"
    )

    @model_validator(mode="after")
    def _fits(self) -> Slow:
        for name in sorted(self.model_fields_set & OWN_FIELDS.keys()):
            if OWN_FIELDS[name] != self.how and getattr(self, name) is not None:
                raise ValueError(f"{name} belongs to `how: {OWN_FIELDS[name]}`, not to {self.how}")
        if {"nodes", "names"} <= self.model_fields_set and self.names:
            raise ValueError("give either nodes (how many) or names (which)")
        return self

    def chosen(self, known: tuple[str, ...], roles: Sequence[str]) -> tuple[str, ...]:
        """The nodes to slow, of the `known` ones in order; ValueError where one is not known.

        `roles` as in `data_nodes`."""
        data = data_nodes(known, roles)
        if not self.names:
            if self.nodes > len(data):
                raise ValueError(
                    f"slow: nodes is {self.nodes}, and the trial has {len(data)}: {', '.join(data)}"
                )
            return data[: self.nodes]
        if missing := [name for name in self.names if name not in known]:
            raise ValueError(
                f"slow: the trial has no node {', '.join(missing)}; it has {', '.join(known)}"
            )
        return self.names

    def words(self) -> str:
        """Text for logs and tables: ``disk, file_mb 2048``."""
        own = {name: getattr(self, name) for name, how in OWN_FIELDS.items() if how == self.how}
        known = [f"{name} {value:g}" for name, value in own.items() if value is not None]
        return ", ".join([self.how, *known])


class Crash(_Condition):
    """One server killed (SIGKILL to all its processes) at a moment of a step."""

    node: str = Field(default="data0", description="its name, or `random` for a seeded one")
    after: float | tuple[float, float] = Field(
        description="seconds from the start of the step, or a range from which the trial's seed "
        "draws them"
    )
    restart: bool = Field(
        default=True,
        description="start it again at once; else only when the step has ended",
    )

    @field_validator("after")
    @classmethod
    def _ordered(cls, after: float | tuple[float, float]) -> float | tuple[float, float]:
        low, high = after if isinstance(after, tuple) else (after, after)
        if low < 0 or high < low:
            raise ValueError("after must be 0 or more seconds, or a range [from, to] that rises")
        return after

    def drawn(
        self, known: tuple[str, ...], roles: Sequence[str], seed: int, step: int
    ) -> tuple[str, float]:
        """The node and the moment (s), the same for the same seed and step; ValueError where
        there is no such node."""
        import numpy as np  # jobs that only read a study need not pay for it

        data = data_nodes(known, roles)
        generator = np.random.default_rng(np.random.SeedSequence([seed, 0x6B696C6C, step]))
        low, high = self.after if isinstance(self.after, tuple) else (self.after, self.after)
        moment = float(generator.uniform(low, high)) if high > low else low
        if self.node != "random":
            if self.node not in known:
                raise ValueError(
                    f"crash: the trial has no node {self.node!r}; it has {', '.join(known)}"
                )
            return self.node, moment
        return data[int(generator.integers(len(data)))], moment
