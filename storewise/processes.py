"""Processes of ours that must not outlive us."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

#: From Linux's ``sys/prctl.h``; the call is described in prctl(2).
_PR_SET_PDEATHSIG = 1


def dies_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A function for a new child process (``preexec_fn``, a pool's initializer).

    It asks the kernel to send the child `how` when the thread that started it ends, however that
    comes: a ``kill -9`` of the parent leaves nothing behind. The C library is loaded here, before
    the fork, where it is safe. On systems other than Linux the returned function does nothing.
    """
    parent = os.getpid()
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        # The parent may have ended between the fork and the call above.
        if os.getppid() != parent:
            os.kill(os.getpid(), how)

    return ask
