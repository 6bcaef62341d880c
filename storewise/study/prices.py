"""Prices of hours and bytes, and the size of the whole corpus: keys `prices` and `corpus`.

They say nothing of how a trial runs, so changing them makes no stored result older.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, model_validator

from storewise.errors import ConfigError
from storewise.study.host_classes import Market
from storewise.study.section import Section, complaint
from storewise.yamlfile import read_yaml

PRICES = Path("config/prices.yaml")


def _day(value: str) -> str:
    try:
        return date.fromisoformat(value).isoformat() if value else value
    except ValueError as error:
        raise ValueError("should be a day, such as 2026-03-31") from error


Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class InstancePrice(Section):
    """One hour of a type of instance, as it is bought; at least one of the two."""

    on_demand: Money | None = None
    spot: Money | None = None

    @model_validator(mode="after")
    def _some(self) -> InstancePrice:
        if self.on_demand is None and self.spot is None:
            raise ValueError("give on_demand, spot or both")
        return self


class HostPrice(NamedTuple):
    """The price of an hour of one host, and its source."""

    hour: float
    basis: str


class Prices(Section):
    """Prices without tax; `note` says where and `date` when they were taken."""

    currency: str = Field(default="USD", min_length=1)
    node_hour: Money
    """One hour of one host of servers."""
    client_hour: Money
    """One hour of one worker host; with embedded stores the only hosts there are."""
    gb_month: Money
    """10^9 bytes kept for a month."""
    note: str = ""
    date: Annotated[str, AfterValidator(_day)] = ""
    instances: dict[str, InstancePrice] = Field(default_factory=dict)
    """Instance type, such as ``i4i.2xlarge`` -> price of such a host, instead of the above."""
    by_study: bool = False
    """Whether the study gave prices. Those of the file alone say what a cloud's instances cost,
    and nothing of the hosts that somebody has."""

    @property
    def source(self) -> str:
        """Note and day, for whoever reads an amount."""
        return "; ".join(filter(None, [self.note, f"prices of {self.date}" if self.date else ""]))

    def knows(self, instance: str, market: Market) -> bool:
        """Whether a type of instance has a price, for spot instances also that of one on demand."""
        price = self.instances.get(instance)
        return price is not None and (getattr(price, market), price.on_demand) != (None, None)

    def host(self, kind: Literal["node", "client"], instance: str, market: Market) -> HostPrice:
        """The price of a host that runs servers (`node`) or workers only (`client`).

        By its type of instance and how that is bought; a spot instance without a spot price costs
        at most what one on demand does. `instance` is empty where it is none; that and a type
        without a price cost `node_hour` or `client_hour`.
        """
        usual = HostPrice(self.node_hour if kind == "node" else self.client_hour, f"{kind}_hour")
        if not instance:
            return usual
        words = market.replace("_", " ")
        price = self.instances.get(instance, InstancePrice.model_construct())
        hour = getattr(price, market)
        if hour is not None:
            return HostPrice(hour, f"{instance} {words}")
        if price.on_demand is not None:
            return HostPrice(price.on_demand, f"{instance} on demand, for want of a spot price")
        return HostPrice(usual.hour, f"{usual.basis}, for want of a price of {instance} {words}")


class Corpus(Section):
    """The data that the chosen store is to hold in the end, where that is more than the inputs."""

    files: int = Field(ge=1)
    bytes: int = Field(ge=1)
    """Bytes of the SSEARCH outputs as text."""


#: The published study's (config/references/niec2014.yaml).
PUBLISHED = Corpus(files=1_119_820, bytes=13_000_000_000_000)


def with_defaults(study: Mapping[str, Any] | None, root: Path) -> dict[str, Any] | None:
    """The prices of ``config/prices.yaml`` with a study's own on top; None without either.

    Nothing of the file counts where the study's currency is another.

    Raises ConfigError with the file and line of a key of ``config/prices.yaml`` that is not known
    or has no price, and where it lacks a price and the study has none at all. What the study gives
    is checked with the study.
    """
    path = root / PRICES
    general = _file_prices(path) if path.is_file() else {}
    special = dict(study or {})
    currency = special.get("currency")
    if currency is not None and currency != general.get("currency", currency):
        general = {}  # nobody says what its amounts are in the study's currency
    prices = {**general, **special}
    instances = [one.get("instances") for one in (general, special)]
    if all(isinstance(one, dict) for one in instances):
        prices["instances"] = {k: v for one in instances if one for k, v in one.items()}
    required = [name for name, info in Prices.model_fields.items() if info.is_required()]
    missing = [name for name in required if name not in prices]
    if prices and missing and not special:
        raise ConfigError(
            f"{path}: {', '.join(missing)}: missing; give all of {', '.join(required)} (0 for what "
            "costs nothing)"
        )
    # A stored study has all prices in it, and whose they were.
    return {"by_study": bool(special), **prices} if prices else None


def _file_prices(path: Path) -> dict[str, Any]:
    text = read_yaml(path, "list of prices")
    # A price that is not here may be the study's.
    nothing = {name: 0 for name, info in Prices.model_fields.items() if info.is_required()}
    try:
        Prices.model_validate({**nothing, **text.data})
    except ValidationError as error:
        text.fail(*complaint(error, Prices))
    return dict(text.data)
