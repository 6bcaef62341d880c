"""Cassandra's and HBase's jars for the tests, fetched once as `storewise install` does it.

They come into a cache outside of the project: $STOREWISE_TEST_CACHE, else ``storewise-tests`` in
the user's cache directory, under a name that changes with the list of jars. Run as a program, this
prints the directories of the engines that it is given.
"""

import fcntl
import hashlib
import os
import sys
from pathlib import Path

from storewise.errors import StorewiseError
from storewise.run.install.install import install
from storewise.run.install.recipes import RECIPES


class Unavailable(Exception):
    """Why the jars cannot be had on this machine."""


def jars(name):
    """The directory of an engine's jars (they are in its ``lib``); raises Unavailable."""
    base = os.environ.get("STOREWISE_TEST_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "storewise-tests"
    )
    recipe = RECIPES[name]
    checksums = "".join(artefact.sha256 for artefact in recipe.artefacts)
    stores = Path(base) / f"jars-{hashlib.sha256(checksums.encode()).hexdigest()[:8]}"
    stores.mkdir(parents=True, exist_ok=True)
    # Several test processes may want them at once.
    with (stores / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            install(recipe, stores, force=False, tick=lambda words: None)
        except StorewiseError as error:
            raise Unavailable(str(error)) from error
    return stores / name


def main():
    for name in sys.argv[1:]:
        print(jars(name))


if __name__ == "__main__":
    main()
