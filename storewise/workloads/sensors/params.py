"""Parameters of the phases of workload `measures`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from storewise.workloads.contract import EndedParams, PhaseParams, WholeParams
from storewise.workloads.sensors.generator import MAX_NUMBER, MAX_ROWS, MAX_SERIES, Readings

#: Of the published design.
SELECTIVITIES = (0.002, 0.02, 0.2, 0.25, 1.0, 2.0, 5.0)
#: Of each selectivity.
EXECUTIONS = 3
_BATCHES: Mapping[str, int] = {"bulk": 50_000, "batches": 1000}


class LoadParams(WholeParams):
    """Parameters of the load."""

    for_less = "`rows`"
    rows: int = Field(default=100_000, ge=100, le=MAX_ROWS, description="readings to load")
    how: Literal["bulk", "batches"] = Field(
        default="bulk",
        description="`bulk`: large batches by the engine's own bulk path; `batches`: small ones",
    )
    batch_size: int | None = Field(
        default=None,
        ge=1,
        description="readings of one insert; 50,000 with `how: bulk`, else 1,000",
    )
    machines: int = Field(default=16, ge=1, le=MAX_NUMBER, description="machines")
    sensors: int = Field(default=4, ge=1, le=MAX_NUMBER, description="sensors of each machine")
    data_seed: int = Field(
        default=1, ge=0, description="seed of the generator, the same in all trials of a study"
    )

    @model_validator(mode="after")
    def _few_series(self) -> LoadParams:
        if (series := self.machines * self.sensors) > MAX_SERIES:
            raise ValueError(
                f"`machines` x `sensors` is {series:,}; {MAX_SERIES:,} series are the most"
            )
        return self

    @property
    def batch(self) -> int:
        return self.batch_size or _BATCHES[str(self.how)]

    @property
    def readings(self) -> Readings:
        return Readings(self.machines, self.sensors, self.data_seed)


class AddParams(WholeParams):
    """Parameters of an incremental load: the readings that follow."""

    for_less = "`rows`"
    rows: int = Field(default=10_000, ge=1, le=MAX_ROWS, description="further readings")
    batch_size: int = Field(default=1000, ge=1, description="readings of one insert")


class KeyParams(EndedParams):
    """Parameters of Q1."""


class RangeParams(PhaseParams):
    """Parameters of Q2 and Q3."""

    operations: int | None = Field(
        default=None,
        ge=1,
        description="how often each selectivity is run, by all clients together; 3 if no other "
        "limit ends the phase",
    )
    selectivity_pct: tuple[float, ...] = Field(
        default=SELECTIVITIES,
        min_length=1,
        description="selectivities: % of the readings to be found, one number or several",
    )

    @model_validator(mode="before")
    @classmethod
    def _ends(cls, data: Any) -> Any:
        # A default beside `seconds` would end the phase long before its time.
        if isinstance(data, dict) and all(
            data.get(name) is None for name in ("operations", "seconds", "search")
        ):
            return {**data, "operations": EXECUTIONS}
        return data

    @field_validator("selectivity_pct", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list | tuple) else (value,)

    @field_validator("selectivity_pct")
    @classmethod
    def _shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if wrong := [share for share in value if not 0 < share <= 100]:
            raise ValueError(f"{wrong[0]} is not a percentage between 0 and 100")
        if len(set(value)) < len(value):
            raise ValueError("a percentage is given twice")
        return value
