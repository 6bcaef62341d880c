"""BLAST+: ``-outfmt 7``, which names its columns, and ``-outfmt 6``, which does not."""

from __future__ import annotations

import re

from storewise.ssearch.formats.format import TableFormat

#: Programs of BLAST+ and PSI-BLAST's iterations.
_PROGRAM = rb"# (?P<program>T?BLAST[NPX]|PSIBLAST|RPSBLAST|RPSTBLASTN|DELTABLAST) (?P<version>\S+)"

#: PSI-BLAST writes both between its iterations.
_ITERATION = (b"Search has CONVERGED!", b"")

BLAST7 = TableFormat(
    name="blast7",
    title="BLAST's table with comments",
    advice="blastp -outfmt 7",
    first=re.compile(_PROGRAM + rb"\n"),
    query=b"# Query:",
    comments=(
        re.compile(rb"# Database: ?(?P<database>.*)"),
        re.compile(rb"# Fields: (?P<fields>.*)"),
        re.compile(rb"# (?P<found>\d+) hits found"),
        re.compile(_PROGRAM),
        re.compile(rb"# BLAST processed (?P<processed>\d+) quer(?:y|ies)"),
    ),
    passed=_ITERATION,
    named=True,
    ends=True,
    counts="rows",
    # With -max_target_seqs.
    more_counted=frozenset({"PSIBLAST", "DELTABLAST"}),
)
BLAST6 = TableFormat(
    name="blast6",
    title="BLAST's table",
    advice="blastp -outfmt 6",
    own_columns=True,
    passed=None,
    seldom=_ITERATION,
)
