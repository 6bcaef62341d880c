"""Finding a release of Riak KV, and making a node's own start directory of it.

A release is a directory with ``bin/riak``, ``releases`` and ``erts-*``; packages put it into
``/usr/lib/riak`` or ``/usr/lib64/riak`` and a launcher with fixed paths, which changes to the user
`riak`, onto the PATH. The start script takes the directory above its own real path for the
release, and Cuttlefish writes below ``releases``: a node gets copies of ``bin`` and ``releases``
(a few MB) and symbolic links to the rest.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from storewise.engines.contract.server import Installation
from storewise.engines.support.installation import environment_of, place_of, usual_places
from storewise.errors import EngineError

VARIABLES = ("STOREWISE_RIAK_HOME", "RIAK_HOME")
HINT = (
    "install OpenRiak's package of Riak KV 3.2 or 3.4, or name its release directory in the "
    "setting `home`, in STOREWISE_RIAK_HOME or RIAK_HOME"
)
_USUAL = (
    "/usr/lib/riak",
    "/usr/lib64/riak",
    "/opt/riak*",
    "/usr/local/riak*",
    "/usr/local/lib/riak",
)
#: Where in a directory that a user names the release may be.
_WITHIN = ("", "riak", "rel/riak", "lib/riak", "lib64/riak", "usr/lib/riak", "usr/lib64/riak")
_MAJOR = 3


def find_release(settings: Mapping[str, Any]) -> Installation:
    """The release on this host; its program is ``riak``, the start script itself.

    Looked for in ``settings["home"]``, else in the directories that STOREWISE_RIAK_HOME and
    RIAK_HOME name, else behind the ``riak`` on the PATH (after loading ``settings["module"]``),
    else where packages put it. Raises EngineError with the places, or for another version than 3.
    """
    environment = environment_of(settings)
    named = settings.get("home") or next(filter(None, map(os.environ.get, VARIABLES)), None)
    for place in _places(named, environment.get("PATH", os.environ.get("PATH", os.defpath))):
        program = place / "bin" / "riak"
        if program.is_file() and (place / "releases").is_dir() and any(place.glob("erts-*")):
            return Installation({"riak": program}, _version(place), environment)
    looked = f"in {named}" if named else ", ".join(["on PATH", *VARIABLES, *_USUAL])
    raise EngineError(
        f"Riak KV: no release (a directory with bin/riak, releases and erts-*; looked {looked}); "
        f"{HINT}"
    )


def _places(named: str | None, path: str) -> Iterator[Path]:
    if named:
        home = place_of(named)
        if home.name == "bin":
            home = home.parent
        yield from (home / within for within in _WITHIN)
        return
    program = shutil.which("riak", path=path)
    if program is not None:
        yield Path(program).resolve().parent.parent
    yield from usual_places(_USUAL)


def _version(release: Path) -> str:
    """As the release records it; nothing needs to be started for it.

    ``riak version`` is no command of every 3.x. The file's form is that of OTP's releases: the
    version of the emulator and that of the release
    (https://www.erlang.org/doc/system/release_structure.html).
    """
    record = release / "releases" / "start_erl.data"
    try:
        words = record.read_text(encoding="utf-8", errors="replace").split()
    except OSError as error:
        raise EngineError(f"Riak KV: {record}: {error.strerror}") from error
    number = re.search(r"\d+(\.\d+)+\S*", words[1]) if len(words) > 1 else None
    if number is None:
        raise EngineError(f"Riak KV: {record} names no version: {' '.join(words)!r}")
    if int(number[0].split(".")[0]) != _MAJOR:
        raise EngineError(
            f"Riak KV: {release} is version {number[0]}, and Storewise runs {_MAJOR}.x; {HINT}"
        )
    return f"Riak KV {number[0]}"
