"""What a killed run left is swept, on a full disk too; real processes, no Snakemake."""

import os
import subprocess
import sys
from queue import Queue

import pytest
from support.fake_time import FakeTime
from support.session import opened
from support.waiting import exit_code, wait_until

from storewise.errors import Aborted
from storewise.session.coordination.liveness import Abort, Watch, abort, members
from storewise.session.coordination.run import Run, sweep


def test_sweeping_ends_a_member_that_does_not_end_by_itself(tmp_path, run):
    opened(tmp_path, run.id)
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from storewise.session.coordination.liveness import membership\n"
        "with membership(Path(sys.argv[1]), 'w'):\n print('in', flush=True); signal.pause()"
    )
    directory = tmp_path / "live" / "t"
    child = subprocess.Popen([sys.executable, "-c", code, directory], stdout=subprocess.PIPE)
    child.stdout.readline()
    assert members(directory)["w"].pid == child.pid
    sweep(tmp_path, directory, patience=0.0)
    assert exit_code(child, 300) == -9
    assert not directory.exists()
    child.stdout.close()
    run.end()


def fill(disk):
    with pytest.raises(OSError, match="No space"), (disk / "ballast").open("wb", buffering=0) as f:
        while f.write(b"x" * 65536):
            pass


def test_on_a_full_disk_a_run_keeps_its_lease_and_can_end_its_trials(small_disk):
    disk = small_disk("1m")
    run = Run(disk)
    paused = []
    ends = Queue()

    def pause(seconds):
        paused.append(seconds)
        return ends.get()

    run.start(pause=pause)
    own_time = FakeTime()
    watch = Watch(disk, opened(disk, run.id), clock=own_time.clock)
    watch.check()
    fill(disk)
    own_time.spend(20)
    watch.check()
    lease = disk / "leases" / run.id
    os.utime(lease, ns=(0, 0))
    ends.put(False)
    wait_until(lambda: len(paused) == 2, 60, "the next renewal")
    assert lease.stat().st_mtime_ns != 0
    own_time.spend(20)
    watch.check()
    assert abort(disk / "live" / "t", Abort("why", failure=True))
    with pytest.raises(Aborted):
        watch.check()
    ends.put(True)
    run.end()
    assert [path.name for path in disk.iterdir()] == ["ballast"]
