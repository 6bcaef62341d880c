"""Less memory for a process that only converts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def limit_arrow_memory() -> None:
    """Have Arrow take memory from the system, and do without pandas, as long as this process lives.

    To be called before Arrow is imported, whose own allocator keeps 60 MB of what was given back;
    child processes do as this one. At its first conversion Arrow imports pandas, if that is there:
    40 MB and 0.4 s. `to_pandas` fails in this process from here on.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
