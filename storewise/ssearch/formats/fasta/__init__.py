"""FASTA's tables: ``-m 8C`` and ``-m 8CB`` with comments, ``-m 8`` without.

Their length and identity leave gaps out, unlike BLAST's: ``-m 8`` must be named by the user.
"""

from __future__ import annotations

import re

from storewise.ssearch.formats.format import TableFormat
from storewise.ssearch.formats.names import STD

#: With `L` the lengths of both sequences stand behind their names, with `B` the last column is a
#: string of BTOP. The list of fields may name the lengths where rows lack them.
_LENGTHS = ("qseqid", "qlen", "sseqid", "slen", *STD[2:])
_COLUMNS = {len(one): one for one in (STD, (*STD, "btop"), _LENGTHS, (*_LENGTHS, "btop"))}

FASTA8C = TableFormat(
    name="fasta8c",
    title="FASTA's table with comments",
    advice="ssearch36 -m 8C",
    first=re.compile(rb"# \S[^\n]*\n# [A-Z][A-Z/]+ 3\d\.\S*[^\n]*\n# Query: "),
    query=b"# Query:",
    comments=(
        re.compile(rb"# Database: ?(?P<database>.*)"),
        re.compile(rb"# (?P<found>\d+) hits found"),
        re.compile(rb"# Fields: .*"),
        re.compile(rb"# (?P<program>[A-Z][A-Z/]+) (?P<version>3\d\.\S+).*"),
        re.compile(rb"# [A-Z][A-Z/]+ processed (?P<processed>\d+) queries"),
        re.compile(rb"# (?P<argv>\S.*)"),
    ),
    columns=_COLUMNS,
    ends=True,
    counts="sequences",
    identity="residues",
    turns_query=True,
)
FASTA8 = TableFormat(
    name="fasta8",
    title="FASTA's table",
    advice="ssearch36 -m 8",
    passed=None,
    columns=_COLUMNS,
    identity="residues",
    turns_query=True,
)
