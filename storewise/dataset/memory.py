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
    """Make Arrow use the system's allocator and never import pandas, in this process and its
    children.

    Call it before Arrow is imported. Arrow's own allocator keeps 60 MB of freed memory, and its
    first conversion imports pandas, if installed (40 MB, 0.4 s). `to_pandas` fails from then on.
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
