"""Cassandra's and HBase's jars for the tests, fetched once by the project's own `make`.

They come into a cache outside of the project: $STOREWISE_TEST_CACHE, else ``storewise-tests`` in
the user's cache directory, under a name that changes with the pom. Run as a program, this prints
the directories of the engines that it is given.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.needs import missing
from support.paths import ROOT

_SECONDS = 900


class Unavailable(Exception):
    """Why the jars cannot be had on this machine."""


def jars(name: str) -> Path:
    """The directory of an engine's jars (they are in its ``lib``); raises Unavailable."""
    if why := missing("mvn"):
        raise Unavailable(f"the jars of {name} are fetched with Maven: {why}")
    base = os.environ.get("STOREWISE_TEST_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "storewise-tests"
    )
    pom = hashlib.sha256((ROOT / "envs" / name / "pom.xml").read_bytes()).hexdigest()[:8]
    stores = Path(base) / f"jars-{pom}"
    stores.mkdir(parents=True, exist_ok=True)
    # Several test processes may want them at once.
    with (stores / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stores / name).is_dir():
            done = subprocess.run(
                ["make", "-s", name, f"STORES={stores}"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                raise Unavailable(f"make {name}: {(done.stderr + done.stdout)[-2000:]}")
    return stores / name


def main() -> None:
    for name in sys.argv[1:]:
        print(jars(name))


if __name__ == "__main__":
    main()
