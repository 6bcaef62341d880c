"""How a process ended, in words: by which signal, or for lack of memory if the kernel says so."""

from __future__ import annotations

import os
import subprocess
import sys

from support.memory_cgroup import without_memory

from storewise.metrics.memory_kills import MemoryKills
from storewise.session.coordination.ending import how_it_ended


def test_a_process_that_the_kernel_kills_for_lack_of_memory() -> None:
    """Really: in a cgroup that allows it none."""
    before = MemoryKills.now()
    code = "import sys; sys.stdin.read(1); x = bytearray(10**8)"
    eater = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    with without_memory(eater.pid):
        eater.communicate(b"x")
    text = how_it_ended(eater.returncode, before, eater.pid)
    assert text.startswith("was ended by SIGKILL: the kernel killed ")
    if os.access("/dev/kmsg", os.R_OK):
        assert "killed it for lack of memory, says its log; give it more memory" in text
