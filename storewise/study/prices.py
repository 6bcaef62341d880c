"""What hours and bytes cost, and how large the whole corpus is: keys `prices` and `corpus`.

They say nothing of how a trial runs, so changing them makes no stored result older.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from storewise.errors import ConfigError
from storewise.yamlfile import nearest, read_yaml, shown

PRICES = Path("config/prices.yaml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _day(value: str) -> str:
    try:
        return date.fromisoformat(value).isoformat() if value else value
    except ValueError as error:
        raise ValueError("should be a day, such as 2026-03-31") from error


Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class InstancePrice(_Section):
    """One hour of a type of instance, as it is bought; at least one of the two."""

    on_demand: Money | None = None
    spot: Money | None = None

    @model_validator(mode="after")
    def _some(self) -> InstancePrice:
        if self.on_demand is None and self.spot is None:
            raise ValueError("give on_demand, spot or both")
        return self


class HostPrice(NamedTuple):
    """What an hour of one host costs, and by which price."""

    hour: float
    basis: str


class Prices(_Section):
    """Prices without tax; `note` says where and `date` when they were taken."""

    currency: str = Field(default="USD", min_length=1)
    node_hour: float = Field(ge=0, allow_inf_nan=False)
    """One hour of one host of servers."""
    client_hour: float = Field(ge=0, allow_inf_nan=False)
    """One hour of one worker host; with embedded stores the only hosts there are."""
    gb_month: float = Field(ge=0, allow_inf_nan=False)
    """10^9 bytes kept for a month."""
    note: str = ""
    date: Annotated[str, AfterValidator(_day)] = ""
    instances: dict[str, InstancePrice] = Field(default_factory=dict)
    """By type, such as ``i4i.2xlarge``: what a host costs that was one, instead of the above."""

    @property
    def source(self) -> str:
        """Note and day, for whoever reads an amount."""
        return "; ".join(filter(None, [self.note, f"prices of {self.date}" if self.date else ""]))

    def knows(self, instance: str, market: Literal["on_demand", "spot"]) -> bool:
        """Whether a type of instance has a price, for spot instances also that of one on demand."""
        own = self.instances.get(instance)
        return own is not None and (getattr(own, market), own.on_demand) != (None, None)

    def host(
        self, kind: Literal["node", "client"], instance: str, market: Literal["on_demand", "spot"]
    ) -> HostPrice:
        """The price of a host that runs servers (`node`) or workers only (`client`).

        By its type of instance and how that is bought; a spot instance without a spot price costs
        at most what one on demand does. `instance` is empty where it is none; that and a type
        without a price cost `node_hour` or `client_hour`.
        """
        usual = HostPrice(self.node_hour if kind == "node" else self.client_hour, f"{kind}_hour")
        if not instance:
            return usual
        words = market.replace("_", " ")
        own = self.instances.get(instance)
        hour = getattr(own, market) if own is not None else None
        if hour is not None:
            return HostPrice(hour, f"{instance} {words}")
        if own is not None and own.on_demand is not None:
            return HostPrice(own.on_demand, f"{instance} on demand, for want of a spot price")
        return HostPrice(usual.hour, f"{usual.basis}, for want of a price of {instance} {words}")


class Corpus(_Section):
    """The data that the chosen store is to hold in the end; by default the published study's."""

    files: int = Field(default=1_119_820, ge=1)
    bytes: int = Field(default=13_000_000_000_000, ge=1)
    """Of the SSEARCH outputs as text."""


def with_defaults(given: Mapping[str, Any] | None, root: Path) -> dict[str, Any] | None:
    """The prices of ``config/prices.yaml`` with a study's own on top; None without either.

    Nothing of the file counts where the study's currency is another.

    Raises ConfigError with the file and line of a key of ``config/prices.yaml`` that is not known
    or has no price, and where it lacks a price and the study has none at all. What the study gives
    is checked with the study.
    """
    path = root / PRICES
    base = _own_prices(path) if path.is_file() else {}
    own = (given or {}).get("currency")
    if own is not None and own != base.get("currency", own):
        base = {}  # its amounts are of another currency, and nobody says what they are in this one
    found = {**base, **(given or {})}
    both = [one.get("instances") for one in (base, given or {})]
    if all(isinstance(one, dict) for one in both):
        found["instances"] = {kind: price for one in both for kind, price in (one or {}).items()}
    required = [name for name, info in Prices.model_fields.items() if info.is_required()]
    gone = [name for name in required if name not in found]
    if found and gone and not given:
        raise ConfigError(
            f"{path}: {', '.join(gone)}: missing; give all of {', '.join(required)} (0 for what "
            "costs nothing)"
        )
    return found or None


def _own_prices(path: Path) -> dict[str, Any]:
    text = read_yaml(path, "list of prices")
    known = list(Prices.model_fields)
    for key in text.data:
        if key not in known:
            text.fail(
                (key,),
                f"is not a known key{nearest(str(key), known)}; known here: {', '.join(known)}",
            )
    # A price that is not here may be the study's.
    nothing = {name: 0 for name, info in Prices.model_fields.items() if info.is_required()}
    try:
        Prices.model_validate({**nothing, **text.data})
    except ValidationError as error:
        first = error.errors()[0]
        place = tuple(first["loc"])
        if first["type"] == "extra_forbidden":
            ways = list(InstancePrice.model_fields)
            text.fail(
                place,
                f"is not a known key{nearest(str(place[-1]), ways)}; known here: {', '.join(ways)}",
            )
        message = first["msg"].removeprefix("Value error, ")
        text.fail(place, f"{message[0].lower() + message[1:]}; found {shown(first.get('input'))}")
    return dict(text.data)
