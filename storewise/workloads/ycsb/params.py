"""Parameters of the ``ycsb`` workload: YCSB's properties, by its names and with its defaults.

The names are those of YCSB's wiki ("Core Properties") and of CoreWorkload in site.ycsb:core 0.17;
``docs/ycsb.md`` says what each of them means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storewise.workloads.contract import EndedParams, WholeParams
from storewise.workloads.ycsb.distributions import Distribution, Lengths
from storewise.workloads.ycsb.keys import MAX_PADDING, Numbers, make_keys

#: YCSB's names of parameters that every workload has, and those with a dot.
ALIASES = {
    "operationcount": "operations",
    "maxexecutiontime": "seconds",
    "target": "rate",
    "exponential.percentile": "exponential_percentile",
    "exponential.frac": "exponential_frac",
}
#: Operations in the order of their codes, and the parameter with the proportion of each.
PROPORTIONS = {
    "read": "readproportion",
    "update": "updateproportion",
    "insert": "insertproportion",
    "scan": "scanproportion",
    "read-modify-write": "readmodifywriteproportion",
}
#: The shares of operations in phases where they cannot be given, the main operation first.
CORE_WORKLOADS: Mapping[str, Mapping[str, float]] = {
    "a": {"read": 0.5, "update": 0.5},  # update heavy
    "b": {"read": 0.95, "update": 0.05},  # read mostly
    "c": {"read": 1.0},  # read only
    "d": {"read": 0.95, "insert": 0.05},  # read the latest
    "e": {"scan": 0.95, "insert": 0.05},  # short scans
    "f": {"read": 0.5, "read-modify-write": 0.5},  # read, modify, write
    "g": {"insert": 0.9, "read": 0.1},  # insert mostly (Altoros 2013)
}
#: The number of any record is below 2^62.
Number = Annotated[int, Field(ge=1, le=1 << 60)]
Share = Annotated[float, Field(ge=0, le=1)]
Proportion = Annotated[float, Field(ge=0)]


def canonical(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under the names that the models have; ValueError for one that is given twice."""
    values_by_name: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name, value in values.items():
        plain = ALIASES.get(name, name)
        if plain in values_by_name:
            raise ValueError(f"`{written[plain]}` and `{name}` are the same: give one of them")
        values_by_name[plain], written[plain] = value, name
    return values_by_name


class RecordParams(BaseModel):
    """Parameters of the records, set by `load`; later phases may repeat but not change them."""

    model_config = ConfigDict(allow_inf_nan=False)

    recordcount: Number = 1000
    fieldcount: int = Field(default=10, ge=1, le=1000)
    fieldlength: int = Field(default=100, ge=1, le=1 << 20)
    minfieldlength: Number = 1
    fieldlengthdistribution: Literal["constant", "uniform", "zipfian"] = "constant"
    insertorder: Literal["hashed", "ordered"] = "hashed"
    zeropadding: int = Field(default=1, ge=1, le=MAX_PADDING)
    insertstart: int = Field(default=0, ge=0, le=1 << 60)
    insertcount: Number | None = None
    dataintegrity: bool = False

    @model_validator(mode="before")
    @classmethod
    def _names(cls, data: Any) -> Any:
        return canonical(data) if isinstance(data, dict) else data


class LoadParams(RecordParams, WholeParams):
    """Parameters of ``load``."""

    for_less = "`recordcount` or `insertcount`"
    batchsize: Number = 1000

    @model_validator(mode="after")
    def _fits(self) -> LoadParams:
        if self.insertcount is None and self.insertstart >= self.recordcount:
            raise ValueError("`insertstart` must be below `recordcount`, or give `insertcount`")
        if self.minfieldlength > self.fieldlength and self.fieldlengthdistribution != "constant":
            raise ValueError("`minfieldlength` must not be above `fieldlength`")
        if self.dataintegrity and self.fieldlengthdistribution != "constant":
            raise ValueError("`dataintegrity` needs `fieldlengthdistribution: constant`")
        return self

    @property
    def records(self) -> int:
        """Number of records that the load makes."""
        return self.recordcount - self.insertstart if self.insertcount is None else self.insertcount

    @property
    def end(self) -> int:
        """Above the number of the last record of the load."""
        return self.insertstart + self.records

    @property
    def lengths(self) -> Lengths:
        """Lengths of fields."""
        return Lengths(self.fieldlengthdistribution, self.minfieldlength, self.fieldlength)

    def bytes_of(self, fields: int) -> int:
        """Bytes of so many fields: where their lengths vary, by the mean length."""
        return round(fields * self.lengths.mean)

    def keys(self, numbers: Numbers) -> list[bytes]:
        """The keys of records with these numbers."""
        return make_keys(numbers, hashed=self.insertorder == "hashed", padding=self.zeropadding)


class RunParams(RecordParams, EndedParams):
    """Parameters shared by the phases after the load."""

    readallfields: bool = True
    writeallfields: bool = False
    requestdistribution: Distribution = "zipfian"
    hotspotdatafraction: Share = 0.2
    hotspotopnfraction: Share = 0.8
    exponential_percentile: float = Field(default=95.0, gt=0, lt=100)
    exponential_frac: float = Field(default=0.8571428571, gt=0)
    minscanlength: Number = 1
    maxscanlength: Number = 1000
    scanlengthdistribution: Literal["uniform", "zipfian"] = "uniform"

    @model_validator(mode="after")
    def _consistent(self) -> RunParams:
        if self.minscanlength > self.maxscanlength:
            raise ValueError("`minscanlength` must not be above `maxscanlength`")
        return self


class MixedParams(RunParams):
    """Parameters of ``run``: operations in any proportions."""

    requestdistribution: Distribution = "uniform"
    readproportion: Proportion = 0.95
    updateproportion: Proportion = 0.05
    insertproportion: Proportion = 0.0
    scanproportion: Proportion = 0.0
    readmodifywriteproportion: Proportion = 0.0

    @model_validator(mode="after")
    def _some(self) -> MixedParams:
        if not any(getattr(self, key) for key in PROPORTIONS.values()):
            raise ValueError(
                f"all proportions are 0: one of {', '.join(PROPORTIONS.values())} must be above 0"
            )
        return self


class LatestParams(RunParams):
    """Parameters of ``d``: read the latest."""

    requestdistribution: Distribution = "latest"


class ScanParams(RunParams):
    """Parameters of ``e``: short scans."""

    maxscanlength: Number = 100


def shares(phase: str, params: RunParams) -> dict[str, float]:
    """The shares of all operations of a phase, which sum to 1."""
    given = CORE_WORKLOADS.get(phase)
    if given is None:
        given = {name: getattr(params, key) for name, key in PROPORTIONS.items()}
    return {name: given.get(name, 0.0) / sum(given.values()) for name in PROPORTIONS}
