"""What Snakemake makes of a profile."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.paths import ROOT

SETTINGS = """\
import json, sys
from snakemake.cli import parse_args
_, args = parse_args(sys.argv[1:])
def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset, list, tuple)):
        return sorted(map(plain, value), key=str)
    return value if isinstance(value, (int, type(None))) else str(value)
print(json.dumps(plain(vars(args))))
"""


def settings(profile: str, directory: Path = ROOT, **environment: str) -> dict[str, Any]:
    """The effective settings of Snakemake under a profile."""
    done = subprocess.run(
        [sys.executable, "-c", SETTINGS, "--profile", profile],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def node_resources(profile: Path, rule: str = "node") -> dict[str, Any]:
    """What a profile sets for a rule: Snakemake takes each as a Python expression."""
    from snakemake.profiles import ProfileConfigFileParser

    with (profile / "config.yaml").open() as stream:
        parsed = ProfileConfigFileParser().parse(stream)
    of_rule = [text for text in parsed["set-resources"] if text.startswith(f"{rule}:")]
    pairs = [text.removeprefix(f"{rule}:") for text in of_rule]
    return {name: ast.literal_eval(value) for name, _, value in (p.partition("=") for p in pairs)}
