"""What Snakemake makes of a profile."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path
from typing import Any

from support.paths import ROOT


def settings(profile: str, directory: Path = ROOT) -> dict[str, Any]:
    """The effective settings of Snakemake under a profile, where it works in `directory`."""
    from snakemake.cli import parse_args

    with contextlib.chdir(directory):
        _, args = parse_args(["--profile", profile])
    result: dict[str, Any] = _plain(vars(args))
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset, list, tuple)):
        return sorted(map(_plain, value), key=str)
    return value if isinstance(value, (int, type(None))) else str(value)


def node_resources(profile: Path, rule: str = "node") -> dict[str, Any]:
    """What a profile sets for a rule: Snakemake takes each as a Python expression."""
    from snakemake.profiles import ProfileConfigFileParser

    with (profile / "config.yaml").open() as stream:
        parsed = ProfileConfigFileParser().parse(stream)
    of_rule = [text for text in parsed["set-resources"] if text.startswith(f"{rule}:")]
    pairs = [text.removeprefix(f"{rule}:") for text in of_rule]
    return {name: ast.literal_eval(value) for name, _, value in (p.partition("=") for p in pairs)}
