"""Numbers, lists and levels of factors in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storewise.analysis.common.frames import missing


def number(value: float) -> str:
    """Three significant digits with thousands separators, without an exponent."""
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    digits = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits)}f}"


def count(value: float) -> str:
    """A count: ``3``, ``1,042``, ``1.1 million``; three digits for a mean that is not whole."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 999_950:
        return f"{value / 1e6:,.1f} million".replace(".0 million", " million")
    # The geometric mean of equal numbers may differ from them in the last digit.
    whole = math.isclose(value, round(value), rel_tol=1e-9)
    return f"{value:,.0f}" if value >= 100 or whole else number(value)


def all_of(words: Sequence[str], link: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {link} {words[-1]}"


def rows_as_text(labels: Iterable[int]) -> str:
    """Row numbers as ranges: ``3-5,9``."""
    runs: list[list[int]] = []
    for label in sorted(labels):
        if runs and label == runs[-1][1] + 1:
            runs[-1][1] = label
        else:
            runs.append([label, label])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def some_of(words: Sequence[str], most: int, link: str = ", ") -> str:
    """The first `most` words and the number of the rest: ``a, b and 3 more``."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return link.join(words[:most]) + more


def binary(size: float) -> str:
    """A size in bytes with a unit that leaves at most four digits."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{number(size)} {unit}"
        size /= 1024
    raise AssertionError("the loop ends at TiB")


def seconds(value: float) -> str:
    """A time in s, ms, us or ns."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if value * factor >= 1 or unit == "ns":
            return f"{number(value * factor)} {unit}"
    raise AssertionError("the loop ends at ns")


#: Singular and plural of each numeric factor.
_COUNTED = {
    "workers": ("worker", "workers"),
    "processes": ("process", "processes"),
    "threads": ("thread", "threads"),
    "nodes": ("node", "nodes"),
    "replicas": ("replica", "replicas"),
    "routers": ("router", "routers"),
    "node_threads": ("thread per node", "threads per node"),
    "node_memory_mb": ("MiB per node", "MiB per node"),
}


def level(value: Any) -> str:
    """A factor's level as text; whole floats without a fraction."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{int(value)}" if float(value).is_integer() else f"{value:g}"
    return str(value)


def setting(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The levels of some factors in words; factors that the row does not have are left out."""
    return ", ".join(_one(name, row[name]) for name in names if not missing(row[name]))


def _one(name: str, value: Any) -> str:
    if name == "routers" and value == 0:
        return "routers beside the clients"
    if name == "node_class":
        return f"hosts of class {value}"
    if name in _COUNTED:
        one, several = _COUNTED[name]
        return f"{level(value)} {one if value == 1 else several}"
    if name == "volume" and isinstance(value, int | float):
        return f"{value:.3g} of the files"
    return f"{name} {level(value)}"
