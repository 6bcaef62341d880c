"""Data inside the page: JSON, and packed parts that are unpacked only when they are looked at."""

from __future__ import annotations

import base64
import gzip
import json
import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from markupsafe import Markup

from storewise.analysis.common.frames import missing

#: Significant digits of numbers in the page; the CSV files have nine.
_DIGITS = 6


def plain(value: Any) -> Any:
    """A value as JSON has it: six significant digits, null where missing or not finite."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if missing(value) or value in (math.inf, -math.inf):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        real = float(value)
        return int(real) if real.is_integer() else float(f"{real:.{_DIGITS}g}")
    return str(value)


def packed(value: Any) -> Markup:
    """JSON compressed (gzip) and in base64, for what is looked at rarely."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Without a time in its head: the same page for the same tables.
    return Markup(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii"))
