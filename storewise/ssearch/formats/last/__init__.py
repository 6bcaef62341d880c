"""LAST's ``lastal -f BlastTab`` and ``-f BlastTab+``."""

from __future__ import annotations

import re

from storewise.ssearch.formats.format import TableFormat
from storewise.ssearch.formats.names import STD

LAST = TableFormat(
    name="last",
    title="LAST's table",
    advice="lastal -f BlastTab+",
    first=re.compile(rb"# LAST version \d+\n(?=(?:#[^\n]*\n)*?# Fields: query id)"),
    comments=(
        re.compile(rb"# (?P<program>LAST) version (?P<version>\S+)"),
        re.compile(rb"# (?P<argv>a=.*)"),
        re.compile(rb"# Query sequences=(?P<processed>\d+).*"),
    ),
    # Its list of fields lacks the raw score, the last column of BlastTab+.
    columns={len(STD): STD, len(STD) + 3: (*STD, "qlen", "slen", "score")},
    ends=True,
    turns_query=True,
)
