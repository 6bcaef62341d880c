"""Plans of the workflow, and a copy of it to be edited."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from support.paths import ROOT
from support.workspace import Workspace

MEASURING = {"open_session", "load", "phase", "verify"}


def planned(text: str) -> dict[str, int]:
    """Rules and numbers of jobs from Snakemake's table of jobs."""
    table = re.search(r"job +count\n[- ]+\n(.*?)\n\n", text, re.DOTALL)
    if table is None:
        assert "Nothing to be done" in text, text
        return {}
    rows = (line.split() for line in table[1].splitlines())
    return {name: int(count) for name, count in rows if name != "total"}


def edited_workflow(place: Workspace) -> Path:
    """A copy of the workflow with a changed script of a measuring rule."""
    home = place.directory / "workflow"
    home.mkdir()
    for name in ("rules", "scripts", "profiles", "report", "envs", "config", "storewise"):
        shutil.copytree(ROOT / name, home / name)
    shutil.copy(ROOT / "Snakefile", home)
    with (home / "scripts" / "worker.py").open("a") as script:
        script.write("\n# changed\n")
    with (home / "rules" / "workload.smk").open("a") as rules:
        rules.write("\n# changed\n")
    return home / "Snakefile"
