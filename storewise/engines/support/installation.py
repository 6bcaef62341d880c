"""Finding an engine's programs: named by the study, by an environment variable, from an environment
module, what `storewise install` fetched, on PATH, or where packages put them."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from storewise.errors import EngineError
from storewise.processes import clean_environment

#: `storewise install` puts a store into a directory of its name here.
OWN_STORES = "~/.local/share/storewise"
_SECONDS = 60


def output_of(
    title: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> str:
    """The output of a program (stdout, else stderr); EngineError if it cannot run or fails."""
    words = f"{title}: {shlex.join(command)}"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=clean_environment({**os.environ, **(environment or {})}),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{words} does not run: {error}") from error
    text = (done.stdout or done.stderr).strip()
    if done.returncode != 0 or not text:
        last = text.splitlines()[-1:] or ["no output"]
        raise EngineError(f"{words} ended with status {done.returncode}: {last[0]}")
    return text


def environment_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The variables that the environment module in a study's settings sets."""
    return dict(_module_environment(settings["module"])) if settings.get("module") else {}


def own_store(name: str) -> Path:
    """The directory into which `storewise install` puts a store, and where engines look for it."""
    return place_of(OWN_STORES) / name


def place_of(text: str) -> Path:
    """A place that a user names, with ``~`` and variables."""
    return Path(os.path.expandvars(text)).expanduser()


def usual_places(patterns: Sequence[str]) -> list[Path]:
    """The paths that match the globs; each glob's matches in descending order."""
    known = (sorted(glob(str(Path(p).expanduser())), reverse=True) for p in patterns)  # noqa: PTH207
    return [Path(place) for places in known for place in places]


@cache
def _module_environment(name: str) -> Mapping[str, str]:
    """The environment after ``module load``, as far as it differs from ours."""
    script = f"module load {shlex.quote(name)} 1>&2 && env -0"
    text = output_of(f"environment module {name!r} cannot be loaded", ["bash", "-lc", script])
    after = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    return {key: value for key, value in after.items() if os.environ.get(key) != value}
