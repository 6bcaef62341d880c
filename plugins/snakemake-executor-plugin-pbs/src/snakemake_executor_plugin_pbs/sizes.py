"""Sizes and times as PBS writes them: pure functions.

OpenPBS's manual page pbs_resources(7B), "Resource Formats": a size is a number with b, w (8 bytes),
kb, kw, ...; a duration is seconds or ``[[hours:]minutes:]seconds``.
"""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


def megabytes(text: str) -> int | None:
    """A size of PBS (``263770364kb``) in MB, None where it is none."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)([bw]?)", text.strip().lower())
    if match is None:
        return None
    scale = _UNITS[match[2]] * (8 if match[3] == "w" else 1)
    return int(match[1]) * scale // 2**20


def walltime(minutes: int) -> str:
    """``HH:MM:SS``"""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def seconds(text: str) -> int | None:
    """A duration in seconds, None where it is none."""
    if re.fullmatch(r"\d+(:\d+){0,2}", text.strip()) is None:
        return None
    total = 0
    for part in text.strip().split(":"):
        total = total * 60 + int(part)
    return total
