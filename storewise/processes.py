"""Processes of ours that must not outlive us."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dies_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A function for the child side of a fork (`preexec_fn`): when its parent ends, however it
    ends, the kernel sends the child `how` (prctl(2), PR_SET_PDEATHSIG).

    On systems other than Linux the returned function does nothing.
    """
    parent = os.getpid()
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)

    def set_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(how))
        if os.getppid() != parent:  # it ended between fork and prctl
            os.kill(os.getpid(), how)

    return set_signal
