"""DIAMOND's ``--outfmt 6``, with its header or without."""

from __future__ import annotations

import re

from storewise.ssearch.formats.format import TableFormat

DIAMOND = TableFormat(
    name="diamond",
    title="DIAMOND's table",
    advice="diamond blastp --outfmt 6 --header verbose",
    first=re.compile(rb"# DIAMOND v|qseqid\tsseqid\t"),
    head=re.compile(rb"(?P<fields>qseqid\t[^\n]*)\n"),
    comments=(
        re.compile(rb"# (?P<program>DIAMOND) v(?P<version>[0-9.]*[0-9]).*"),
        re.compile(rb"# Invocation: (?P<argv>.*)"),
        re.compile(rb"# Fields: (?P<fields>.*)"),
    ),
    named=True,
    own_columns=True,
    ungapped=True,
)
