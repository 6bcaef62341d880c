"""Children that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

#: From Linux's ``sys/prctl.h``; the call is described in prctl(2).
_PR_SET_PDEATHSIG = 1


def dies_with_parent(parent: int | None = None) -> Callable[[], None]:
    """A function for a new child process (``preexec_fn``, a pool's initializer).

    It asks the kernel to kill the child when the thread that started it ends, however that comes:
    a ``kill -9`` of the parent leaves nothing behind. `parent` is that process's id, the present
    process by default. The C library is loaded here, before the fork, where it is safe.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    expected = os.getpid() if parent is None else parent

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have ended between the fork and the call above.
        if os.getppid() != expected:
            os.kill(os.getpid(), signal.SIGKILL)

    return ask
