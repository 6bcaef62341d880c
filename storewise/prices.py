"""What hours and bytes cost, and how large the whole corpus is: keys `prices` and `corpus`.

They say nothing of how a trial runs, so changing them makes no stored result older.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from storewise.errors import ConfigError
from storewise.studyfile import nearest, read_yaml

PRICES = Path("config/prices.yaml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Prices(_Section):
    """Prices without tax; `note` says where and when they were taken."""

    currency: str = Field(default="USD", min_length=1)
    node_hour: float = Field(ge=0, allow_inf_nan=False)
    """One hour of one host of servers."""
    client_hour: float = Field(ge=0, allow_inf_nan=False)
    """One hour of one worker host; with embedded stores the only hosts there are."""
    gb_month: float = Field(ge=0, allow_inf_nan=False)
    """10^9 bytes kept for a month."""
    note: str = ""


class Corpus(_Section):
    """The data that the chosen store is to hold in the end; by default the published study's."""

    files: int = Field(default=1_119_820, ge=1)
    bytes: int = Field(default=13_000_000_000_000, ge=1)
    """Of the SSEARCH outputs as text."""


def with_defaults(given: Mapping[str, Any] | None, root: Path) -> dict[str, Any] | None:
    """The prices of ``config/prices.yaml`` with a study's own on top; None without either.

    Raises ConfigError with the file and line of a key of ``config/prices.yaml`` that is not known
    or has no price, and where it lacks a price and the study has none at all. What the study gives
    is checked with the study.
    """
    path = root / PRICES
    base = _own_prices(path) if path.is_file() else {}
    found = {**base, **(given or {})}
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
        message = first["msg"][0].lower() + first["msg"][1:]
        text.fail(tuple(first["loc"]), f"{message}; found {first.get('input')!r}")
    return dict(text.data)
