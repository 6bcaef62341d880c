"""Real outputs of every program and version: documents, ids, counts; both readers, one answer."""

import io

import pytest
from Bio import SearchIO
from support.inputs.ssearch import DATA, DIGEST, REAL, ids_of_file, outcome, read, reader_of

from storewise.documents import KINDS, Kind, fields
from storewise.ssearch.parse.documents import to_bson
from storewise.ssearch.reader import DocumentReader

#: (mode, encoding, bytes read at a time): each pair of two of them.
WAYS = [
    ("fast", "dict", 700),
    ("fast", "bson", 4096),
    ("fast", "arrow", 1 << 20),
    ("auto", "bson", 700),
    ("auto", "arrow", 4096),
    ("auto", "dict", 1 << 20),
    ("reference", "arrow", 700),
    ("reference", "bson", 1 << 20),
]
#: Program, version, queries, hits and alignments.
COUNTS = {
    "fasta34": "FASTA 34.26 3 6 6", "fasta34_nohits": "FASTA 34.26 5 3 3",
    "fasta35_dna": "FASTA 35.04 3 1 1", "fasta36_dna": "FASTA 36.3.8i 1 9 9",
    "fasta36_protein": "FASTA 36.3.8i 1 12 12", "mixed_programs": "SSEARCH 36.3.8i 2 3 3",
    "ssearch36_blanks": "SSEARCH 36.3.8i 2 4 4", "fastx36": "FASTX 36.3.8i 1 24 24",
    "ggsearch36_no_length": "GGSEARCH 36.3.8i 2 2 2",
    "glsearch36_overhang": "GLSEARCH 36.3.8i 1 1 1", "lalign36_dna": "LALIGN 36.3.8i 1 4 6",
    "lalign36_protein": "LALIGN 36.3.8i 1 1 3", "ssearch35": "SSEARCH 35.03 3 1 1",
    "ssearch36": "SSEARCH 36.3.8i 3 36 36", "ssearch36_blast_lengths": "SSEARCH 36.3.8i 1 1 1",
    "ssearch36_dashes": "SSEARCH 36.3.8i 1 1 1", "ssearch36_context": "SSEARCH 36.3.8i 1 10 27",
    "ssearch36_identity_floor": "SSEARCH 36.3.8i 1 1 1",
    "ssearch36_identities": "SSEARCH 36.3.8i 3 2 2",
    "ssearch36_identities_marks": "SSEARCH 36.3.8i 3 12 12",
    "ssearch36_identities_scores": "SSEARCH 36.3.8i 3 0 0",
    "ssearch36_list": "SSEARCH 36.3.8i 3 2 2", "ssearch36_marks": "SSEARCH 36.3.8i 3 30 30",
    "ssearch36_nohits": "SSEARCH 36.3.8i 3 2 2", "ssearch36_nostats": "SSEARCH 36.3.8i 1 12 12",
    "ssearch36_protein_codes": "SSEARCH 36.3.8i 1 6 6", "ssearch36_scores": "SSEARCH 36.3.8i 3 0 0",
    "ssearch36_to_file": "SSEARCH 36.3.8i 3 2 2", "tfastx36": "TFASTX 36.3.8i 1 12 13",
    "tfastx36_old": "TFASTX 36.3.4 4 9 12", "tfasty36": "TFASTY 36.3.8i 1 2 5",
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_all_readers_find_the_same_documents_with_ids_of_digest_and_counts(name):
    content = (DATA / name).read_bytes()
    expected = outcome(content, mode="reference")
    for mode, encoding, chunk in WAYS:
        assert expected == outcome(content, mode=mode, encoding=encoding, chunk_bytes=chunk)
    _, counts, program, version, result = expected
    numbers = counts.queries, counts.hits, counts.alignments
    assert COUNTS[name.removesuffix(".m10")].split() == [program, version, *map(str, numbers)]
    assert counts.documents == sum(map(len, result.values()))
    for kind, documents in result.items():
        names = [field.name for field in kind.fields]
        for document in documents:
            assert list(document)[: len(names)] == names
            extra = list(document)[len(names) :]
            assert all(key.startswith(("pg_", "mp_")) for key in extra)
            assert not extra or kind is Kind.TASKS
    ids = [(kind, document["_id"]) for kind, documents in result.items() for document in documents]
    assert ids == list(ids_of_file(DIGEST, counts.queries, counts.alignments))
    tasks = {document["_id"] for document in result[Kind.TASKS]}
    for rna, gs, align in zip(*(result[k] for k in KINDS if k is not Kind.TASKS), strict=True):
        assert (align["rna"], align["gs"]) == (rna["_id"], gs["_id"])
        assert rna["ti"] == gs["ti"] == align["ti"] and align["ti"] in tasks
    # Counting makes no documents.
    assert DocumentReader(DATA / name, DIGEST).count() == counts


@pytest.mark.parametrize("study_fields", [False, True])
def test_bson_bytes_are_those_of_bson_encode(study_fields):
    path = DATA / "ssearch36.m10"
    fast = reader_of(path, "fast", encoding="bson", study_fields=study_fields)
    reference = reader_of(path, "reference", study_fields=study_fields)
    expected = [to_bson(d) for batch in reference for _, part in batch for d in part]
    assert [bytes(d) for batch in fast for _, part in batch for d in part] == expected
    _, result = read(DATA / "ssearch36.m10", study_fields=study_fields)
    for kind in (Kind.RNA, Kind.GS, Kind.ALIGN):
        assert list(result[kind][0]) == [f.name for f in fields(kind, study_fields=study_fields)]
    assert ("q" in result[Kind.TASKS][0]) is not study_fields


def test_the_fast_reader_is_used():
    for name in ("ssearch36.m10", "ssearch36_nostats.m10", "lalign36_dna.m10"):
        reader, _ = read(DATA / name)
        # One alignment teaches it the layout.
        assert reader.fast_alignments == reader.counts.alignments - 1


def test_values():
    _, result = read(DATA / "ssearch36.m10")
    task = result[Kind.TASKS][0]
    assert task["q"] == "pGT875" and task["lib"] == "gst.nlib"
    assert task["pg_argv"].endswith('"1000000000 -1" three_queries.fa gst.nlib')
    assert task["pg_name_alg"] == "Smith-Waterman (SSE2, Michael Farrar 2006)"
    assert task["pg_open-ext"] == "-12 -4"
    second = {kind: documents[1] for kind, documents in result.items()}
    assert {k: v for k, v in second[Kind.ALIGN].items() if not isinstance(v, bytes)} == {
        "t": 604, "b": second[Kind.ALIGN]["b"], "e": second[Kind.ALIGN]["e"], "s_w": 2064,
        "f": "f", "i": 0.776, "o": 696, "p": 2064, "si": 0.776, "z": second[Kind.ALIGN]["z"],
        "q": "pGT875", "gene": None, "chr": None,
    }  # fmt: skip
    assert (second[Kind.RNA]["b"], second[Kind.RNA]["e"], second[Kind.RNA]["l"]) == (7, 701, 694)
    assert second[Kind.RNA]["s"].startswith("GCCAGTTTGAGAAGAC-CACAGC")
    assert second[Kind.GS]["seqid"] == "RABGLTR"
    reverse = next(d for d in result[Kind.ALIGN] if d["f"] == "r")
    rna = next(d for d in result[Kind.RNA] if d["_id"] == reverse["rna"])
    assert rna["b"] > rna["e"] and rna["l"] == rna["b"] - rna["e"]


def test_missing_values_are_none():
    _, result = read(DATA / "ssearch36_nostats.m10")
    assert all(d["z"] is d["b"] is d["e"] is None for d in result[Kind.ALIGN])
    _, result = read(DATA / "lalign36_dna.m10")
    assert all(d["f"] is None and d["p"] is not None for d in result[Kind.ALIGN])


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_scores_that_no_float_holds_are_none(mode):
    """fasta36 prints such scores where its statistics fail."""
    content = (DATA / "ssearch36.m10").read_bytes()
    for printed in (b"inf", b"-nan", b"1e999", b"-1e999"):
        odd = content.replace(b"; sw_z-score: 447.1\n", b"; sw_z-score: " + printed + b"\n")
        assert odd != content
        for encoding in ("dict", "bson", "arrow"):
            _, result = read(odd, mode=mode, encoding=encoding)
            assert [d["z"] for d in result[Kind.ALIGN]].count(None) == odd.count(printed + b"\n")


def test_ids_hold_the_blanks_of_unicode():
    _, result = read(DATA / "ssearch36_blanks.m10")
    assert [task["q"] for task in result[Kind.TASKS]] == ["gene\xa01", "gene\xa02"]
    assert {gs["seqid"] for gs in result[Kind.GS]} == {"lib\xa0A", "lib\xa0B"}


def test_queries_without_hits_have_tasks():
    _, result = read(DATA / "ssearch36_nohits.m10")
    assert [d["q"] for d in result[Kind.TASKS]] == ["empty1", "pGT875", "empty2"]
    first = result[Kind.TASKS][0]
    assert first["lib"] == "gst.nlib"
    assert first["pg_ver"] == "36.3.8i Nov, 2022" and "nohit_queries.fa" in first["pg_argv"]
    assert {d["ti"] for d in result[Kind.ALIGN]} == {result[Kind.TASKS][1]["_id"]}


def test_old_versions_keep_both_names():
    _, result = read(DATA / "ssearch35.m10")
    hit = result[Kind.TASKS][1]
    assert hit["pg_name"].endswith("ssearch35") and hit["pg_name_alg"].startswith("Smith-Waterman")
    assert hit["pg_ver"] == "35.03" and "pg_ver_rel" in hit
    assert hit["lib"] == "NC_002128.faa"


#: SearchIO knows no lalign, takes the query's id without `gi|N|` for another query, an id for a
#: mark, a table of scores without alignments for the end of the file, a residue `-` for a gap, and
#: no hit without a description.
BIOPYTHON_CANNOT = (
    "fastx36", "gg", "gl", "lalign", "mixed", "ssearch36_blanks", "ssearch36_dashes",
    "ssearch36_identi", "ssearch36_marks", "ssearch36_scores", "ssearch36_to_file",
)  # fmt: skip


@pytest.mark.parametrize("name", [n for n in REAL if not n.startswith(BIOPYTHON_CANNOT)])
def test_biopython_reads_the_same(name):
    """SearchIO is an oracle for ordinary files (it merges hits of one id: compare as sets)."""
    expected = set()
    for result in SearchIO.parse(DATA / name, "fasta-m10"):
        for hsp in result.hsps:
            query = str(hsp.query.seq)
            expected.add((hsp.hit_id, query, str(hsp.hit.seq), getattr(hsp, "evalue", None)))
    _, outcome = read(DATA / name)
    of_hits = zip(outcome[Kind.RNA], outcome[Kind.GS], outcome[Kind.ALIGN], strict=True)
    ours = {(gs["seqid"], rna["s"], gs["s"], align["e"]) for rna, gs, align in of_hits}
    if name == "ssearch36_context.m10":
        # SearchIO gives every `>--` the e-value of the hit's first alignment there.
        expected, ours = ({item[:3] for item in items} for items in (expected, ours))
    assert ours == expected


def test_several_searches_in_a_file():
    names = ("ssearch36", "ssearch35", "tfastx36", "ssearch36_nohits", "fasta34")
    contents = [(DATA / f"{name}.m10").read_bytes() for name in names]

    def without_ids(documents):
        return [{k: v for k, v in d.items() if not isinstance(v, bytes)} for d in documents]

    for mode in ("fast", "reference"):
        reader, result = read(b"".join(contents), mode=mode)
        for kind in KINDS:
            apart = [d for content in contents for d in read(content)[1][kind]]
            assert without_ids(result[kind]) == without_ids(apart)
        counts = reader.counts
        ids = [d["_id"] for documents in result.values() for d in documents]
        assert ids == [i for _, i in ids_of_file(DIGEST, counts.queries, counts.alignments)]


def test_batches():
    for size in (1, 7, 36, 1000):
        reader = DocumentReader(DATA / "ssearch36.m10", DIGEST, alignments_per_batch=size)
        batches = list(reader)
        sizes = [len(batch.align) for batch in batches]
        assert sum(sizes) == 36 and all(s == size for s in sizes[:-1]) and sizes[-1] <= size
        assert all(len(b.rna) == len(b.gs) == len(b.align) for b in batches)
        read_bytes = [batch.bytes_read for batch in batches]
        assert read_bytes == sorted(read_bytes)
        assert read_bytes[-1] <= (DATA / "ssearch36.m10").stat().st_size


def test_wrong_arguments_are_refused():
    for options in ({"encoding": "xml"}, {"alignments_per_batch": 0}):
        with pytest.raises(ValueError):
            DocumentReader(io.BytesIO(b""), DIGEST, **options)
    with pytest.raises(ValueError):
        DocumentReader(io.BytesIO(b""), b"short")


GENES = {
    b"X gene:ENSG01.2 chromosome:GRCh38:7:1:99:1": ("X", "ENSG01.2", "7"),
    b"X [gene=psbA] [chromosome=Pltd]": ("X", "psbA", "Pltd"),
    b"sp|P1|A_B protein GN=GSTM1 PE=1": ("sp|P1|A_B", "GSTM1", None),
    b"X Homo sapiens chromosome 12, clone": ("X", None, "12"),
    b"X chromosome:4": ("X", None, "4"),
    b"X whole chromosome shotgun; >>> sw_score: 9": ("X", None, None),
    b"caf\xe9 \xff": ("caf\ufffd", None, None),
    # The programs know no blank but the space.
    "g\xa01\u2028 gene:a\xa01\tx".encode(): ("g\xa01\u2028", "a\xa01", None),
}


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_gene_and_chromosome(mode):
    content = (DATA / "ssearch36.m10").read_bytes()
    old = b"\n>>BTGST Bovine GST mRNA for gluthathione S-transferase, class-pi.\n"
    assert old in content
    for line, expected in GENES.items():
        changed = content.replace(old, b"\n>>" + line + b"\n")
        for encoding in ("dict", "bson", "arrow"):
            _, result = read(changed, mode=mode, encoding=encoding)
            pairs = zip(result[Kind.GS], result[Kind.ALIGN], strict=True)
            hits = [(gs["seqid"], align["gene"], align["chr"]) for gs, align in pairs]
            assert hits.count(expected) == 6
