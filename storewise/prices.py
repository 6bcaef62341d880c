"""What hours and bytes cost, and how large the whole corpus is: keys `prices` and `corpus`.

They say nothing of how a trial runs, so changing them makes no stored result older.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from storewise.studyfile import read_yaml

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

    Raises ConfigError where the file is no YAML mapping.
    """
    path = root / PRICES
    base = dict(read_yaml(path).data) if path.is_file() else {}
    found = {**base, **(given or {})}
    return found or None
