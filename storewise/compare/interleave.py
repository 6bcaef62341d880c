"""Generate a study that measures old and new in the same rounds, as levels of one factor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from storewise.atomic import write_aside
from storewise.errors import ConfigError
from storewise.study.load import find_study, load_study
from storewise.study.study import Study

#: Where repeats differ by 10 %, so many rounds find a difference of a third in 7 of 10 cases, and
#: one of a half in 9 of 10 (one setting, three figures).
ROUNDS = 5


def write_interleaved(
    name: str, factor: str, levels: Sequence[str], out: Path, root: Path
) -> Study:
    """Write a study that extends another by a factor with two levels, old and new.

    The factor is a factor of any study, a setting of an engine (``postgres.home``: directory of a
    version's programs) or a parameter of a phase. With an engine's setting all other engines are
    left out. Raises ConfigError, and leaves no file, if the result is no valid study.
    """
    base = load_study(name, root=root)
    if factor == "engine":
        raise ConfigError("--interleave: engines of one study are in the same rounds already")
    if out.exists():
        raise ConfigError(f"{out}: exists already; choose another name")
    owner = factor.partition(".")[0]
    others = [{"engine": one} for one in base.engines if owner in base.engines and one != owner]
    path = find_study(name, root)
    study = {
        "extends": name if path.parent.is_relative_to(root) else str(path.resolve()),
        "factors": {factor: [yaml.safe_load(level) for level in levels]},
        "repeats": max(ROUNDS, base.repeats),
    }
    if others:
        study["exclude"] = [*base.exclude, *others]
    note = f"# Old and new in the same rounds. After its run:\n#   storewise compare {out.stem} "
    note += f"--by {factor}={':'.join(levels)}\n"
    write_aside(out, note + yaml.safe_dump(study, sort_keys=False))
    try:
        return load_study(out, root=root)
    except ConfigError:
        out.unlink()
        raise
