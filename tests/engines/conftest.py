from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from server_stores import Clusters


def unavailable(reason: str) -> None:
    """Skip, or fail where every test must run."""
    if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
        pytest.fail(f"STOREWISE_REQUIRE_ALL is set, but {reason}")
    pytest.skip(reason)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of its own size below the test's directory."""
    mounted: list[Path] = []

    def mount(size: str, *options: str) -> Path:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            unavailable("mounting a small file system needs root and the mount command")
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        text = ",".join((f"size={size}", *options))
        command = ["mount", "-t", "tmpfs", "-o", text, "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            unavailable(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Servers for the tests, started when they are first needed."""
    from server_stores import Clusters

    found = Clusters(tmp_path_factory.mktemp("servers"))
    with found.stack:
        yield found
