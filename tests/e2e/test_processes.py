"""A pool of processes: what a kill leaves of it."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

#: A script without a guard: a child that ran it again would start children of its own.
SCRIPT = """
import sys, time
from storewise.errors import StorewiseError
from storewise.processes import in_processes

def killed(seconds):
    return StorewiseError(f"killed in a sleep of {seconds} s")

try:
    for _ in in_processes(time.sleep, [0, 600, 601], 2, killed=killed):
        print("slept", flush=True)
except StorewiseError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def running(tmp_path):
    """A script whose two children sleep."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout.readline() == "slept\n"
            yield process, psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()


def gone(children):
    return not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_its_parent(running, how):
    process, children = running
    sleepers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    assert len(sleepers) == 2
    if how == signal.SIGINT:  # a terminal sends it to all
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    assert process.wait(20) != 0
    assert gone(children)


def test_a_killed_child_is_one_error_that_names_what_it_did(running):
    process, children = running
    next(child for child in children if "spawn_main" in " ".join(child.cmdline())).kill()
    _, text = process.communicate(timeout=60)
    assert process.returncode == 1
    assert text == "killed in a sleep of 600 s\n"
    assert gone(children)
