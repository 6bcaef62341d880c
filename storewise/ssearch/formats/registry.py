"""The formats of tables, and how the format of a file is found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from storewise.errors import ConfigError, InputError
from storewise.ssearch.formats.blast import BLAST6, BLAST7
from storewise.ssearch.formats.diamond import DIAMOND
from storewise.ssearch.formats.fasta import FASTA8, FASTA8C
from storewise.ssearch.formats.format import M10, InputFormat
from storewise.ssearch.formats.last import LAST
from storewise.ssearch.formats.mmseqs2 import MMSEQS2
from storewise.ssearch.formats.names import column_names
from storewise.ssearch.parse.lines import shown

FORMATS = {f.name: f for f in (BLAST7, BLAST6, FASTA8C, FASTA8, DIAMOND, MMSEQS2, LAST)}
#: Bytes in which a format shows.
HEAD_BYTES = 1 << 16
_M10_HEAD = b"\n version 3"
#: A line with so many tabs is of a table.
_SOME_COLUMNS = 4
_INTEGER = rb" *-?\d+"
_NUMBER = rb" *-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
#: A first row of twelve columns, which several programs write.
_ROW = re.compile(
    rb"[^\t\n]+\t[^\t\n]+\t"
    + _NUMBER
    + (rb"\t" + _INTEGER) * 7
    + (rb"\t" + _NUMBER) * 2
    + rb"[\t\n]"
)
#: VSEARCH has neither e-values nor bits.
_VSEARCH = re.compile(rb"(?:[^\t\n]*\t){10}-1\t0\n")
_TABLES = "BLAST's -outfmt 7 or 6, FASTA's -m 10 or -m 8C, DIAMOND's, MMseqs2's or LAST's tables"
#: First bytes of what is not read, its name, and what to do.
_AGAIN = "write it again with -outfmt 7, or by blast_formatter"
_REFUSED = (
    (rb"\s*<(?:\?xml|!DOCTYPE BlastOutput)", "an XML file", _AGAIN),
    (rb"\s*\{", "a JSON file", _AGAIN),
    (rb"(?:Blast4-archive|Seq-annot) ::=", "BLAST's ASN.1", _AGAIN),
    (rb"\x6b\xe3\x3e\x6d|\x6d\x3e\xe3\x6b", "DIAMOND's archive", "diamond view --outfmt 6"),
    (rb"@(?:HD|SQ|PG|RG|CO)\t", "a SAM file", "write a table instead"),
    (rb"(?:#[^\n]*\n){0,2}# ?-*\s*target name", "a table of HMMER", "profiles are no sequences"),
    (rb"[^\t\n]+(?:\t\d+){3}\t[-+]\t[^\t\n]+(?:\t\d+){3}\t", "a PAF file", "write BLAST's"),
    (rb"# LAST version", "LAST's output of another format", "write lastal -f BlastTab+"),
    (rb"[^\t\n,]+(?:,[^\t\n,]*){11,}\n", "a table with commas", "write it with tabs (-outfmt 6)"),
)


def parse_format(text: str) -> InputFormat:
    """The format of a text as `InputFormat.text` gives it. ConfigError for an unknown one, and for
    columns of a format that has its own."""
    name, *columns = re.split(r"[\s,]+", text.strip())
    if name == M10 and not columns:
        return InputFormat()
    if name not in FORMATS and name != M10:
        raise ConfigError(
            f"format {name!r} is not known; expected one of {', '.join([M10, *FORMATS])}"
        )
    form = FORMATS.get(name)
    if columns and (form is None or not form.own_columns):
        own = ", ".join(one.name for one in FORMATS.values() if one.own_columns)
        raise ConfigError(f"format {name} has fixed columns; only {own} have lists of columns")
    return InputFormat(form, tuple(columns))


def format_of(head: bytes, name: str, asked: str = "") -> InputFormat:
    """The format of the file `name`, which begins with `head`: the `asked` one (`parse_format`),
    else that which shows; ``-m 10`` if it is no table, so that its reader says what is wrong.
    InputError for a format that is not read, or is another one than asked for."""
    certain = _certain(head)
    if asked:
        form = parse_format(asked)
        if certain is not None and certain.table is not form.table:
            found = certain.table.title if certain.table is not None else "an output of -m 10"
            raise InputError(
                name, "the file is of another format", line=1, offset=0,
                expected=form.text, found=f"{found} ({certain.text})",
            )  # fmt: skip
        return form
    if certain is not None:
        return certain
    for pattern, what, advice in _REFUSED:
        if re.match(pattern, head):
            raise InputError(
                name, f"{what}, which is not read", line=1, offset=0,
                expected=_TABLES, found=f"{shown(head[:30])}: {advice}",
            )  # fmt: skip
    if not head:
        raise InputError(
            name, "the file is empty", line=1, offset=0, found="nothing",
            expected="an output of ssearch36 -m 10; for a table without hits say --format",
        )  # fmt: skip
    if not _ROW.match(head):
        line = head.partition(b"\n")[0]
        if line.count(b"\t") >= _SOME_COLUMNS and b"\0" not in line:
            raise InputError(
                name, "a table of unknown columns", line=1, offset=0, found=shown(head[:60]),
                expected=f"{_TABLES}; for a list of columns of your own say --format and --columns",
            )  # fmt: skip
        return InputFormat()
    if _VSEARCH.match(head):
        raise InputError(
            name, "a table of VSEARCH, which has no e-values and no scores", line=1, offset=0,
            expected=_TABLES, found="e-value -1 and bits 0",
        )  # fmt: skip
    identities = [row.split(b"\t")[2] for row in head.split(b"\n")[:-1] if row.count(b"\t") >= 11]
    identities = identities or [head.split(b"\t", 3)[2]]
    reason, expected = "", ""
    if len(identities) > 1 and all(0 < _number(one) <= 1 for one in identities):
        reason = "a table whose identities are all fractions, as MMseqs2 writes them"
        expected = "`--format mmseqs2`, or `--format blast6` if they are percents"
    elif all(len(one.partition(b".")[2]) == 2 for one in identities):
        # Its lengths and identities mean something else than BLAST's.
        reason = "a table whose identities have two decimals, as FASTA writes them"
        expected = "`--format fasta8`, or `--format blast6` if another program wrote it"
    if reason:
        found = f"an identity of {identities[0].decode(errors='replace')}"
        raise InputError(name, reason, line=1, offset=0, expected=expected, found=found)
    return InputFormat(BLAST6)


def has_titles(head: bytes, form: InputFormat) -> bool:
    """Whether hits of a file that begins with `head` can name genes: those of ``-m 10`` do, tables
    need a column with the subject's title."""
    if form.table is None:
        return True
    names: Sequence[str] = form.names
    if not names and form.table.named:
        fields = re.search(rb"^# Fields: (.*)|^((?:qseqid|query)\t.*)", head, re.M)
        names = re.split(r", |\t", fields[fields.lastindex or 1].decode()) if fields else ()
    return "stitle" in column_names(names)


def is_output(head: bytes) -> bool:
    """Whether a file that begins with `head` is an output of a search, of a format that is read."""
    return _certain(head) is not None or _ROW.match(head) is not None


def _certain(head: bytes) -> InputFormat | None:
    """The format that the first bytes show for certain."""
    for known in FORMATS.values():
        if known.first is not None and known.first.match(head):
            return InputFormat(known)
    return InputFormat() if _M10_HEAD in head else None


def _number(cell: bytes) -> float:
    return float(cell) if re.fullmatch(_NUMBER, cell) else -1.0
