"""Names of PBS jobs: pure functions.

OpenPBS's manual page qsub(1B), ``-N``: "up to 230 characters ... first character must be
alphabetic, numeric, hyphen, underscore, or plus sign"; old PBS Pro and Torque: 15 characters, a
letter first. ``qstat`` shows the first 15.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from snakemake_executor_plugin_pbs.dialects import TORQUE

LONGEST = 60
LONGEST_TORQUE = 15
#: Hexadecimal digits at the end of a name, so that a job can be found by it.
TOKEN_BYTES = 3


def clean(name: str, token: str, dialect: str) -> str:
    """A name that qsub takes, with `token` at its end: the readable part comes first, so it is
    what ``qstat`` shows."""
    text = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "job"
    if not text[0].isalpha():
        text = f"j{text}"
    longest = LONGEST_TORQUE if dialect == TORQUE else LONGEST
    return f"{text[: longest - len(token) - 1]}-{token}"


def readable(rule: str, wildcards: Sequence[str]) -> str:
    """The name of a job whose rule gives none: RULE.WILDCARD.WILDCARD"""
    return ".".join([rule, *wildcards])


def common(names: Sequence[str], rule: str) -> str:
    """One name for the jobs of an array: what their names begin with, up to a whole word; the
    rule's name where that is next to nothing."""
    if len(set(names)) == 1:
        return names[0]
    first, last = min(names), max(names)  # what these two share, all share
    same = next(
        (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    prefix = first[:same]
    whole = re.sub(r"[^._-]*$", "", prefix).rstrip("._-")
    return whole if len(whole) >= 3 else rule
