"""Names of a table's columns, as programs and their users write them, and the values behind them.

Sources: ``blastp -help`` (BLAST+ 2.12), ``diamond help`` (2.1.3), ``mmseqs convertalis -h`` (14),
lastal's documentation (1447), FASTA 36.3.8i's ``doc/fasta_guide.tex``.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The twelve columns of ``-outfmt 6`` without a list of one's own.
STD = (
    *("qseqid", "sseqid", "pident", "length", "mismatch", "gapopen"),
    *("qstart", "qend", "sstart", "send", "evalue", "bitscore"),
)
#: The columns that documents are made of; all others are passed over.
TEXTS = ("qseqid", "sseqid", "stitle", "qseq", "sseq")
FLOATS = ("pident", "fident", "ppos", "evalue", "bitscore")
INTEGERS = ("length", "gapopen", "score", "qstart", "qend", "sstart", "send")
#: Integers that only tables of hits have.
OF_HITS = ("mismatch", "gaps")
#: Columns without which there is no hit.
NEEDED = ("qseqid", "sseqid", "qstart", "qend", "sstart", "send", "evalue", "bitscore")
#: Other names of the columns above.
_SAME = {
    **dict.fromkeys(("qacc", "qaccver", "query", "query id", "query acc.ver"), "qseqid"),
    **dict.fromkeys(("query acc.", "query ID"), "qseqid"),
    **dict.fromkeys(("sacc", "saccver", "target", "subject id", "subject acc.ver"), "sseqid"),
    **dict.fromkeys(("subject acc.", "subject ID"), "sseqid"),
    **dict.fromkeys(("% identity", "percentage of identical matches"), "pident"),
    **dict.fromkeys(("alnlen", "alignment length"), "length"),
    **dict.fromkeys(("gap opens", "number of gap openings"), "gapopen"),
    **dict.fromkeys(("q. start", "start of alignment in query"), "qstart"),
    **dict.fromkeys(("q. end", "end of alignment in query"), "qend"),
    **dict.fromkeys(("tstart", "s. start", "start of alignment in subject"), "sstart"),
    **dict.fromkeys(("mismatches", "number of mismatches"), "mismatch"),
    **dict.fromkeys(("total number of gaps",), "gaps"),
    **dict.fromkeys(("tend", "s. end", "end of alignment in subject"), "send"),
    **dict.fromkeys(("expected value",), "evalue"),
    **dict.fromkeys(("bits", "bit score"), "bitscore"),
    **dict.fromkeys(("% positives", "percentage of positive-scoring matches"), "ppos"),
    **dict.fromkeys(("raw", "raw score", "score"), "score"),
    **dict.fromkeys(("subject title", "theader", "salltitles"), "stitle"),
    **dict.fromkeys(("qaln", "qseq_gapped", "query seq"), "qseq"),
    **dict.fromkeys(("taln", "sseq_gapped", "subject seq"), "sseq"),
}


def column_names(written: Sequence[str], *, ungapped: bool = False) -> list[str]:
    """BLAST's names of columns that a program or a user has written; ``std`` stands for `STD`.

    With `ungapped` (DIAMOND) ``qseq`` and ``sseq`` are no aligned sequences and not used. Repeated
    columns are ignored.
    """
    names: list[str] = []
    for name in written:
        if name == "std":
            names += STD
            continue
        same = _SAME.get(name, _SAME.get(name.lower(), name))
        if ungapped and name in ("qseq", "sseq"):
            same = f"{name} without gaps"
        names.append(same)
    return [name if name not in names[:at] else f"{name} {at + 1}" for at, name in enumerate(names)]
