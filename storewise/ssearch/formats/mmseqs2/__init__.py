"""MMseqs2's ``--format-mode 4``, whose first line names the columns, and ``--format-mode 0``."""

from __future__ import annotations

import re

from storewise.ssearch.formats.format import TableFormat
from storewise.ssearch.formats.names import STD

MMSEQS2 = TableFormat(
    name="mmseqs2",
    title="MMseqs2's table",
    advice="mmseqs convertalis --format-mode 4",
    first=re.compile(rb"query\ttarget\t"),
    head=re.compile(rb"(?P<fields>query\t[^\n]*)\n"),
    passed=None,
    columns={len(STD): tuple("fident" if name == "pident" else name for name in STD)},
    named=True,
    own_columns=True,
    identity="fraction",
)
