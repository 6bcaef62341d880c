"""Headings and captions of figures. It imports no library, since Snakemake's rules use it, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Name of a figure -> its ``heading`` and ``caption``."""
    text = Path(__file__).with_name("captions.yaml").read_text(encoding="utf-8")
    told: Mapping[str, Mapping[str, str]] = yaml.safe_load(text)
    return told
