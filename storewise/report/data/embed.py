"""Data and code inside the page: JSON that no text of the inputs can break out of, and packed
parts that are unpacked only when they are looked at."""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import Any

import numpy as np
from markupsafe import Markup

from storewise.analysis.common.frames import missing

#: In a script element only these could end it, open a comment or end a line of JavaScript.
_UNSAFE = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
#: Significant digits of numbers in the page; the CSV files have nine.
_DIGITS = 6


def plain(value: Any) -> Any:
    """A value as JSON has it: six significant digits, null where missing or not finite."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            return None
        real = float(value)
        whole = real.is_integer() and abs(real) < 2**53
        return int(real) if whole else float(f"{real:.{_DIGITS}g}")
    if missing(value):
        return None
    return str(value)


def script_json(value: Any) -> Markup:
    """JSON that can stand in a script element."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, escaped in _UNSAFE.items():
        text = text.replace(sign, escaped)
    return Markup(text)


def packed(value: Any) -> Markup:
    """JSON compressed (gzip) and in base64, for what is looked at rarely."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Without a time in its head: the same page for the same tables.
    return Markup(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii"))
