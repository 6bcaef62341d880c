"""Which PBS it is: pure functions of what ``qstat --version`` prints.

OpenPBS's manual page qstat(1B): "--version: the command returns its PBS version information".
"""

from __future__ import annotations

import re

OPENPBS, PBSPRO, TORQUE = "openpbs", "pbspro", "torque"
DIALECTS = (OPENPBS, PBSPRO, TORQUE)


def dialect_of(text: str) -> str | None:
    """The dialect from all that ``qstat --version`` printed (Torque prints to stderr), None where
    it cannot be told.

    OpenPBS and PBS Pro were one program until version 19; since then OpenPBS has two-digit years
    (``pbs_version = 23.06.06``) and PBS Pro four-digit ones (``2022.1.3``), older ones carry the
    name (``PBSPro_13.1.0``). Torque says ``Version: 6.1.2`` and ``Commit: ...``.
    """
    if re.search(r"pbspro|\b20\d\d\.\d", text, re.IGNORECASE):
        return PBSPRO
    if re.search(r"^\s*pbs_version\s*=\s*\d", text, re.IGNORECASE | re.MULTILINE):
        return OPENPBS
    if re.search(r"^\s*(version|commit)\s*:", text, re.IGNORECASE | re.MULTILINE):
        return TORQUE
    return None
