"""Tables of hits by real programs (tests/data/tables), against what does not come from us: FASTA's
own `-m 10` of the same search, Biopython, DuckDB, and counts by hand."""

import csv
import gzip
import io

import bson
import duckdb
import pytest
from Bio import SearchIO
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from support.paths import DATA

from storewise.documents import KINDS, PARAMS_COLUMN
from storewise.errors import ConfigError, InputError
from storewise.ssearch.formats.names import STD, column_names
from storewise.ssearch.formats.registry import FORMATS
from storewise.ssearch.hits import write_hits
from storewise.ssearch.reader import DocumentReader

TABLES = DATA / "tables"
DIGEST = bytes(range(101, 117))
#: File -> format where it does not show, queries, rows.
FILES = {
    "blast_blastn.fmt6": ("", 27, 166),
    "blast_blastp.fmt6": ("", 27, 253),
    "blast_blastp.fmt7": ("", 30, 253),
    "blast_tblastn.fmt7": ("", 30, 30),
    "blast_psi.fmt7": ("", 12, 108),
    "blast_psi.fmt6": ("", 6, 108),
    "blast_own.fmt7": ("", 6, 36),
    "fasta36_ssearch_d.m8CB": ("", 30, 249),
    "fasta36_lengths.m8CBL": ("", 6, 111),
    "fasta36_ssearch_p.m8": ("fasta8", 27, 253),
    "fasta36_ssearch_p.m8C": ("", 30, 253),
    "diamond_p.fmt6": ("", 27, 204),
    "diamond_p.hdrv": ("", 27, 204),
    "mmseqs_p.fmt4": ("", 27, 241),
    "mmseqs_p.m8": ("mmseqs2", 27, 241),
    "last_d.blasttabp": ("", 27, 249),
    "last_p.blasttab": ("", 27, 253),
    "traps_blastn_same_query.m6": ("", 1, 5),
    "traps_diamond213_unal.m8": ("", 3, 0),
}


def content(name):
    return gzip.decompress((TABLES / f"{name}.gz").read_bytes())


def documents(source, **options):
    """The documents of a table by kind."""
    found = {kind: [] for kind in KINDS}
    reader = DocumentReader(source, DIGEST, **options)
    for batch in reader:
        for kind, some in batch:
            found[kind] += some
    return found, reader


def of_bytes(data, **options):
    return documents(io.BytesIO(data), name="a.tab", **options)


@pytest.mark.parametrize("name", FILES)
def test_each_program_s_table_is_read_and_counted(name):
    form, queries, rows = FILES[name]
    found, reader = documents(TABLES / f"{name}.gz", input_format=form)
    assert (reader.counts.queries, reader.counts.alignments) == (queries, rows)
    assert [len(some) for some in found.values()] == [queries, rows, rows, rows]
    ids = {document["_id"] for some in found.values() for document in some}
    assert len(ids) == queries + 3 * rows
    # Each row is of a search that is there.
    tasks = {task["_id"]: task["q"] for task in found[KINDS[0]]}
    assert all(tasks[hit["ti"]] == hit["q"] for hit in found[KINDS[3]])
    counted = DocumentReader(TABLES / f"{name}.gz", DIGEST, input_format=form).count()
    assert counted == reader.counts


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_all_encodings_are_the_same_documents(name, size):
    form = FILES[name][0]
    expected, _ = documents(TABLES / f"{name}.gz", input_format=form)
    options = {"input_format": form, "alignments_per_batch": size}
    binary, _ = documents(TABLES / f"{name}.gz", encoding="bson", **options)
    for kind, some in expected.items():
        plain = [
            {k: v.binary if isinstance(v, ObjectId) else v for k, v in bson.decode(one).items()}
            for one in binary[kind]
        ]
        assert plain == some
    arrow = {kind: [] for kind in KINDS}
    for batch in DocumentReader(TABLES / f"{name}.gz", DIGEST, encoding="arrow", **options):
        for kind, some in batch:
            arrow[kind] += some.to_pylist()
    for kind in KINDS[1:]:
        assert arrow[kind] == expected[kind]
    names = ("_id", "t", "q", "lib")
    assert [tuple(one[n] for n in names) for one in arrow[KINDS[0]]] == [
        tuple(one[n] for n in names) for one in expected[KINDS[0]]
    ]
    assert all(PARAMS_COLUMN in one for one in arrow[KINDS[0]])


@pytest.mark.parametrize(
    ("name", "form"), [("fasta36_ssearch_p.m8", "fasta8"), ("fasta36_ssearch_p.m8C", "")]
)
def test_fasta_s_tables_have_the_values_of_its_m10(name, form):
    """The identity of `-m 10` has three decimals; ids of GenBank lose their first part there."""
    table, _ = documents(TABLES / f"{name}.gz", input_format=form)
    full, _ = documents(TABLES / "fasta36_ssearch_p.m10.gz")
    for kind, names in zip(KINDS[1:], ("be", "be", "beofq"), strict=True):
        for row, other in zip(table[kind], full[kind], strict=True):
            assert [row[n] for n in names] == [other[n] for n in names]
            if "i" in row:
                assert row["i"] == pytest.approx(other["i"], abs=0.00051)
            if "seqid" in row:
                assert row["seqid"].endswith(other["seqid"][:50])


@pytest.mark.parametrize("name", ["blast_blastp.fmt6", "blast_blastp.fmt7", "diamond_p.fmt6"])
def test_biopython_reads_the_same_hits(name):
    """Where it reads: it takes a query whose name begins with ``#`` for the end of a table."""
    lines = content(name).decode().splitlines(keepends=True)
    text = io.StringIO("".join(line for line in lines if not line.startswith("#hash")))
    results = SearchIO.parse(text, "blast-tab", comments=name.endswith("7"))
    hsps = {
        (hsp.query_id, hsp.hit_id, hsp.bitscore, hsp.evalue, hsp.aln_span)
        for result in results
        for hit in result
        for hsp in hit
    }
    found, _ = documents(TABLES / f"{name}.gz")
    ours = {
        (hit["q"], row["seqid"], hit["b"], hit["e"], hit["o"])
        for hit, row in zip(found[KINDS[3]], found[KINDS[2]], strict=True)
    }
    assert {hsp for hsp in hsps if hsp[0] != "#hash"} <= ours
    assert len(hsps) > 190


def test_duckdb_counts_the_same(tmp_path):
    (tmp_path / "t").write_bytes(content("blast_blastp.fmt6"))
    rows = duckdb.sql(
        f"SELECT count(*), count(DISTINCT column00), max(column11) FROM read_csv('{tmp_path}/t', "
        "delim='\t', header=false, quote='')"
    ).fetchall()
    found, _ = documents(TABLES / "blast_blastp.fmt6.gz")
    hits = found[KINDS[3]]
    ours = len(hits), len({hit["q"] for hit in hits}), max(hit["b"] for hit in hits)
    assert rows == [ours]


@pytest.mark.parametrize("name", FILES)
def test_wherever_a_block_ends_the_documents_are_the_same(name, monkeypatch):
    form = FILES[name][0]
    expected, whole = documents(TABLES / f"{name}.gz", input_format=form)
    for size in (256, 1000, 4099):
        monkeypatch.setattr("storewise.ssearch.formats.rows.BLOCK", size)
        found, reader = documents(TABLES / f"{name}.gz", input_format=form)
        assert found == expected and reader.counts == whole.counts


def test_hits_are_those_of_blast_s_own_table(tmp_path):
    """Of the same searches; and FASTA's table has the hits of its `-m 10`."""

    def hits(name, form=""):
        write_hits(TABLES / f"{name}.gz", "csv", tmp_path / "h.csv", input_format=form)
        return list(csv.reader((tmp_path / "h.csv").read_text().splitlines()))

    rows = [line.split("\t") for line in content("blast_blastp.fmt6").decode().splitlines()]
    for name in ("blast_blastp.fmt6", "blast_blastp.fmt7"):
        for ours, row in zip(hits(name), rows, strict=True):
            assert ours[:2] == row[:2]
            assert list(map(float, ours[2:12])) == list(map(float, row[2:]))
    for ours, full in zip(
        hits("fasta36_ssearch_p.m8", "fasta8"), hits("fasta36_ssearch_p.m10"), strict=True
    ):
        assert [ours[n] for n in (3, 4, 6, 7, 8, 9, 10, 11, 14)] == [
            full[n] for n in (3, 4, 6, 7, 8, 9, 10, 11, 14)
        ]
        assert float(ours[2]) == pytest.approx(float(full[2]), abs=0.01)


def test_minus_strands_titles_and_sequences_by_hand():
    row = ["q", "s", "90.000", "10", "1", "0", "1", "10", "20", "11", "1e-5", "30.0"]
    more = ["Mus [gene=Abc] [chromosome=4]", "ACGT-ACGTA", "ACGTAACGTA", "77", "95.00"]
    names = [*STD, "stitle", "qseq", "sseq", "score", "ppos"]
    found, _ = of_bytes(
        "\t".join([*row, *more]).encode() + b"\n", input_format=" ".join(["blast6", *names])
    )
    (rna,), (gs,), (hit,) = (found[kind] for kind in KINDS[1:])
    assert (rna["s"], gs["s"], gs["b"], gs["e"], gs["l"]) == (*more[1:3], 20, 11, 9)
    assert (hit["f"], hit["i"], hit["o"], hit["p"], hit["si"]) == ("r", 0.9, 10, 77, 0.95)
    assert (hit["gene"], hit["chr"], hit["z"], hit["s_w"]) == ("Abc", "4", None, None)
    # DIAMOND's qseq and sseq have no gaps.
    found, _ = of_bytes(
        "\t".join([*row, *more]).encode() + b"\n", input_format=" ".join(["diamond", *names])
    )
    assert found[KINDS[1]][0]["s"] is None


def test_names_of_columns():
    assert column_names(["std", "qlen"]) == [*STD, "qlen"]
    assert column_names(["query", "target", "fident", "alnlen", "bits"]) == [
        *("qseqid", "sseqid", "fident", "length", "bitscore")
    ]
    assert column_names(["evalue", "evalue"]) == ["evalue", "evalue 2"]


ROW = b"q\ts\t95.200\t125\t6\t0\t24\t148\t12\t136\t2.71e-86\t247\n"


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (ROW + ROW.replace(b"125", b"12x"), 2, r"column 4 \(length\).*an integer; found '12x'"),
        (ROW + ROW.replace(b"2.71e-86", b"e-100"), 2, r"column 11 \(evalue\).*a number"),
        (ROW + ROW.replace(b"q\t", b"\xff\t"), 2, r"column 1 \(qseqid\).*text in UTF-8"),
        (ROW * 3 + b"q\ts\t95.2\n", 4, "the row has 3 columns; expected 12 columns"),
        (ROW + b"x\n" + ROW, 2, "the row has 1 columns"),
        (ROW + ROW[:-1], 2, "no line feed: the file was cut"),
        (ROW + ROW.replace(b"\n", b"\r\n"), 2, "CR LF"),
        (ROW + b"\0" * 9 + b"\n", 2, "a NUL byte"),
        (ROW.replace(b"95.200", b"95.20"), 1, "as FASTA writes them.*--format fasta8"),
        (ROW.replace(b"95.200", b"0.952") * 2, 1, "as MMseqs2 writes them.*--format mmseqs2"),
        (b"{}", 1, "a JSON file"),
        (b"<?xml version='1.0'?>\n", 1, "an XML file"),
        (b"@HD\tVN:1.6\n", 1, "a SAM file"),
        (b"# target name  accession\n", 1, "HMMER"),
        (ROW.replace(b"\t", b","), 1, "commas"),
        (b"# LAST version 1447\n#\n1 a 2\n", 1, "LAST's output of another format"),
        (ROW.replace(b"95.200", b"x"), 1, "a table of unknown columns.*say --format and --columns"),
        (b"", 1, "the file is empty.*for a table without hits say --format"),
    ],
)
def test_a_bad_table_is_one_error_with_line_and_column(data, line, says):
    with pytest.raises(InputError, match=f"(?s){says}") as caught:
        of_bytes(data)
    assert caught.value.line == line


def test_vsearch_is_refused_by_name():
    with pytest.raises(InputError, match="VSEARCH"):
        documents(TABLES / "vsearch_g.b6.gz")


@pytest.mark.parametrize("name", ["blast_blastp.fmt7", "fasta36_ssearch_p.m8C", "last_p.blasttab"])
def test_an_output_with_a_visible_end_is_whole_or_an_error(name):
    """Cut anywhere behind its first lines; a row that is missing shows too."""
    data = content(name)
    for at in range(len(data) // 2, len(data), 997):
        with pytest.raises(InputError):
            of_bytes(
                data[:at], input_format=next(f for f in FORMATS if name.split("_")[0][:4] in f)
            )
    lines = data.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if b"\t" in line]
    if "blast_" in name:
        with pytest.raises(InputError, match="10 hits, as line 5 says; found 9 rows"):
            of_bytes(b"".join(line for number, line in enumerate(lines) if number != rows[3]))


def test_queries_whose_names_begin_with_a_hash_are_rows():
    found, _ = of_bytes(ROW.replace(b"q\t", b"#q\t") + ROW.replace(b"q\t", b"# q\t"))
    assert [task["q"] for task in found[KINDS[0]]] == ["#q", "# q"]


def test_what_a_file_is_for_certain_is_held_against_what_was_asked_for():
    with pytest.raises(InputError, match=r"another format; expected blast6; found BLAST's table w"):
        documents(TABLES / "blast_blastp.fmt7.gz", input_format="blast6")
    with pytest.raises(InputError, match=r"expected fasta8c; found an output of -m 10 \(m10\)"):
        documents(TABLES / "fasta36_ssearch_p.m10.gz", input_format="fasta8c")
    with pytest.raises(ConfigError, match="has fixed columns; only blast6, diamond, mmseqs2"):
        of_bytes(ROW, input_format="fasta8 qseqid sseqid")


def test_columns_that_change_within_a_file_are_refused():
    """Of two outputs of one number of columns, one behind the other."""
    first = content("blast_blastp.fmt7")
    other = first.replace(b"% identity, alignment length", b"alignment length, % identity")
    with pytest.raises(InputError, match="the columns change within the file"):
        of_bytes(first + other)
    _, reader = of_bytes(first + first)
    assert reader.counts.queries == 60
    with pytest.raises(InputError, match="the file ends too early"):
        of_bytes(first + first[: first.index(b"\n") + 1])


def test_formats_are_known_by_name():
    with pytest.raises(ConfigError, match="'blast9' is not known; expected one of m10, blast7"):
        of_bytes(ROW, input_format="blast9")
    # Without a hit a bare table is empty.
    _, reader = of_bytes(b"", input_format="blast6")
    assert reader.counts.documents == 0


@given(st.data())
def test_no_change_of_a_byte_makes_other_documents_of_the_other_rows(data):
    """A row that changed is read as it is, or refused; all others are as before."""
    lines = content("blast_blastp.fmt6").splitlines(keepends=True)[:20]
    number = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[number]) - 1))
    changed = bytearray(lines[number])
    changed[at] = data.draw(st.integers(0, 255))
    expected, _ = of_bytes(b"".join(lines))
    try:
        found, _ = of_bytes(b"".join([*lines[:number], bytes(changed), *lines[number + 1 :]]))
    except InputError:
        return
    for kind in KINDS[1:]:
        assert len(found[kind]) <= len(expected[kind]) + 1
        if len(found[kind]) == len(expected[kind]):
            others = [row for row in range(len(lines)) if row != number]
            for row in others:
                same = {k: v for k, v in found[kind][row].items() if k not in ("ti",)}
                assert same == {k: v for k, v in expected[kind][row].items() if k not in ("ti",)}


@given(st.data())
def test_no_line_that_is_lost_doubled_or_moved_puts_a_hit_to_another_query(data):
    """It is refused where the format shows it; a hit keeps the query of its own row."""
    name = data.draw(st.sampled_from(["blast_blastp.fmt7", "fasta36_ssearch_p.m8C"]))
    lines = content(name).splitlines(keepends=True)
    one, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    how = data.draw(st.sampled_from(["lost", "doubled", "moved"]))
    line = lines.pop(one)
    if how != "lost":
        lines.insert(other, line)
    if how == "doubled":
        lines.insert(one, line)
    text = b"".join(lines)
    if data.draw(st.booleans()):
        text = gzip.compress(text, 1)
    try:
        found, _ = of_bytes(text)
    except InputError:
        return
    expected = {
        tuple(row.split(b"\t")[:2]) for row in lines if b"\t" in row and not row.startswith(b"# ")
    }
    pairs = zip(found[KINDS[3]], found[KINDS[2]], strict=True)
    assert {(hit["q"].encode(), gs["seqid"].encode()) for hit, gs in pairs} == expected
