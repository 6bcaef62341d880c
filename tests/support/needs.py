"""What a test needs and this machine may not have.

A test says so with ``@pytest.mark.needs("ssearch36", "root")``: programs by name,
``postgres`` and ``mariadb``, and root. Where
one is missing the test is skipped with what to install, or fails where every test must run
(``STOREWISE_REQUIRE_ALL=1``).
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache

import pytest

from support.paths import TESTS

#: Where programs are that are not on every PATH.
BESIDE = "/usr/sbin:/sbin"
#: Stores whose programs the engines find themselves, and say what to install.
SERVERS = ("postgres", "mariadb")


def unavailable(reason: str) -> None:
    """Skip, or fail where every test must run."""
    if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
        pytest.fail(f"STOREWISE_REQUIRE_ALL is set, but {reason}")
    pytest.skip(reason)


@cache
def packages() -> dict[str, str]:
    """The Debian package of each program, as tests/system-packages installs them."""
    text = (TESTS / "system-packages").read_text()
    return dict(re.findall(r"^(?:slow_)?need ([\w.+-]+) ([\w.+-]+)", text, flags=re.MULTILINE))


def find(program: str) -> str | None:
    """The path of a program, if it is here."""
    return shutil.which(program) or shutil.which(
        program, path=os.pathsep.join([os.environ.get("PATH", ""), BESIDE])
    )


def missing(thing: str) -> str:
    """Why a test that needs a program, or root, cannot run here; empty where it can."""
    if thing == "root":
        return "" if os.geteuid() == 0 else "only root can do what this test does"
    if thing in SERVERS:
        return _no_server(thing)
    if find(thing):
        return ""
    package = packages().get(thing)
    install = f"on Debian: apt-get install {package}" if package else "a part of every Debian"
    return f"{thing} is not installed ({install}; tests/system-packages as root brings all)"


def _no_server(name: str) -> str:
    from storewise.engines.registry import engine
    from storewise.errors import EngineError

    try:
        engine(name).find({})  # type: ignore[attr-defined]
    except EngineError as error:
        return str(error)
    return ""


def program(name: str) -> str:
    """The path of a program that a test runs; it ends here where there is none."""
    why = missing(name)
    if why:
        unavailable(why)
    return str(find(name))
