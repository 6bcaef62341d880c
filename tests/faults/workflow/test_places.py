"""Places of a run that cannot be written: a home, the results, a disk that is full."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.workspace import Workspace

from storewise.run.runner import cache_environment

#: Five megabytes.
STUDY = """\
workload: ycsb
engines: [sqlite]
retries: 0
phases:
  - load: {recordcount: 5000}
  - c: {seconds: 0.3}
"""
#: Root's own right to write in spite of modes is taken away.
OBEYS_MODES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    place = Workspace(tmp_path)
    place.write_study(STUDY)
    yield place
    for process in place.processes():
        process.kill()


def home_of(kind: str, directory: Path) -> dict[str, str]:
    """An environment with a home that cannot be written, is not there, or is not named."""
    environment = {k: v for k, v in os.environ.items() if k != "HOME" and not k.startswith("XDG_")}
    home = directory / "home"
    if kind == "unset":
        return environment
    if kind == "read-only":
        home.mkdir(mode=0o555)
    if kind == "another's":
        home.mkdir()
        os.chown(home, 12345, 12345)
    if kind == "a file":
        home.touch()
    return {**environment, "HOME": str(home)}


def run_there(place: Workspace, kind: str, *arguments: str) -> str:
    environment = home_of(kind, place.directory)
    command = [*OBEYS_MODES, *place.storewise_command(*arguments)]
    home = place.directory / "home"
    closed = home.is_dir()  # one that is missing may be made
    done = place.run(command, env=environment, timeout=600)
    message = done.stdout + done.stderr
    assert done.returncode == 0, message
    assert "Traceback" not in message
    assert not closed or list(home.iterdir()) == []
    return message


def test_a_home_that_is_none_gets_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root too cannot write below a file."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home_of("a file", tmp_path)["HOME"])
    assert cache_environment(tmp_path) == {"XDG_CACHE_HOME": str(tmp_path / ".snakemake/cache")}
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_environment(tmp_path) == {}


@pytest.mark.needs("root", "setpriv")
def test_a_plan_with_a_home_that_cannot_be_written(place: Workspace) -> None:
    """Snakemake's own cache ended it with a traceback before it had a plan."""
    assert "1 trial, about " in run_there(place, "another's", "run", "s.yaml", "-n")


@pytest.mark.all_cells
@pytest.mark.needs("root", "setpriv")
@pytest.mark.parametrize("kind", ["read-only", "another's", "a file", "missing", "unset"])
def test_a_whole_run_with_a_home_that_cannot_be_written(place: Workspace, kind: str) -> None:
    run_there(place, kind, "run", "s.yaml")
    assert (place.results / "report.html").is_file()
    shutil.rmtree(place.directory / "home", ignore_errors=True)
    (place.directory / "home").unlink(missing_ok=True)
    run_there(place, kind, "doctor")


def test_results_that_cannot_be_written(place: Workspace, small_disk: Callable[..., Path]) -> None:
    (place.directory / "results").symlink_to(small_disk("1m", "ro"))
    done = place.storewise("run", "s.yaml")
    message = done.stdout + done.stderr
    assert done.returncode != 0
    assert "results cannot be written to" in message
    assert "Read-only file system" in message
    assert "Traceback" not in message


@pytest.mark.all_cells
def test_results_whose_disk_fills_during_a_run(
    place: Workspace, small_disk: Callable[..., Path]
) -> None:
    (place.directory / "results").symlink_to(small_disk("700k"))
    done = place.snakemake()
    message = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in message
    (reason,) = re.findall(r"^storewise: trial sqlite\S* ended: (.*)$", message, re.MULTILINE)
    assert re.search(r"full|No space left on device", reason)
    assert f"on host {socket.gethostname()}" in reason
    assert str(place.results) in reason or "results/s/" in reason
    assert place.left_behind() == []
    assert place.processes() == []
