"""Places of a run that cannot be written: a home, the results, a disk that is full."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.workspace import Workspace

STUDY = "workload: ycsb\nengines: [sqlite]\nphases:\n  - load: {recordcount: 50}\n"
#: Root's own right to write in spite of modes is taken away.
OBEYS_MODES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


@pytest.fixture(autouse=True)
def study(place: Workspace) -> None:
    place.write_study(STUDY)


@pytest.mark.needs("root", "setpriv")
@pytest.mark.parametrize("what", ["plan", pytest.param("run", marks=pytest.mark.all_cells)])
def test_a_home_that_cannot_be_written(place: Workspace, what: str) -> None:
    """Snakemake's own cache ended a plan with a traceback."""
    home = place.directory / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    arguments = ["run", "s.yaml", *(["-n"] if what == "plan" else [])]
    command = [*OBEYS_MODES, *place.storewise_command(*arguments)]
    done = place.run(command, env={**environment, "HOME": str(home)}, timeout=600)
    message = done.stdout + done.stderr
    assert done.returncode == 0, message
    assert "Traceback" not in message
    assert list(home.iterdir()) == []
    assert (place.results / "report.html").is_file() if what == "run" else "1 trial, " in message


def test_results_that_cannot_be_written(place: Workspace, small_disk: Callable[..., Path]) -> None:
    (place.directory / "results").symlink_to(small_disk("1m", "ro"))
    done = place.storewise("run", "s.yaml")
    message = done.stdout + done.stderr
    assert done.returncode != 0
    assert "results cannot be written to" in message
    assert "Read-only file system" in message
    assert "Traceback" not in message
