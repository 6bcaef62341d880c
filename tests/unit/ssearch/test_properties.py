"""Generated outputs and broken ones: the fast reader says what the reference reader says."""

from random import Random
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st
from support.inputs.ssearch import DATA, outcome

from storewise.documents import Kind

SEEDS = st.integers(0, 1 << 32)
CHUNKS = st.sampled_from([64, 333, 2000, 6000, 1 << 20])
#: Ids that look like marks: FASTA files may hold any.
MARKS = [
    ">lead2",
    ">>x",
    "1>>>q",
    "2>>>q",
    ">2>>>q",
    "><<<",
    ">///",
    ">--",
    "--",
    ";",
    ">q,",
    "g\xa01",
]
WORDS = [b" ", b"gene:a", b"[chromosome=7]", b"chromosome 1,", b">>>", b"- 5 nt", b"\xc3\xa9"]
ANY_BYTES = bytes({*range(1, 256)} - {*b"\n\r"})


def search(random):
    """A whole search as one of the programs and versions would print it."""
    flags = ("frames", "statistics", "offset", "consensus", "code", "extra")
    style = SimpleNamespace(
        prefixes=random.choice([("sw", "sw"), ("fa", "sw"), ("fa", "bs"), ("lsw", "lsw")]),
        opt=random.choice(["s-w opt", "opt"]),
        kind=random.choice("Dp"),
        **{flag: random.random() < 0.5 for flag in flags},
    )
    version, queries = random.choice([34, 35, 36]), random.randint(1, 4)
    new = version == 36
    out = [
        b"# program -m 10 q l\nSSEARCH searches\n version %d.3 Nov\n" % version,
        b"\nQuery: q\n" if new else b"\nQuery library q vs l library\n",
    ]
    for number in range(1, queries + 1):
        name = identifier(random)
        out.append(b"%3d>>>%s %s - 99 nt\n" % (number, name.encode(), description(random)))
        out.append(b"Library: l\n  99 residues in   9 sequences\n\n>120   0  0:\nStatistics: x\n")
        hits = random.randint(0, 6)
        if not hits:
            out.append(b"!! No sequences with E() < 1\n" + (b">>><<<\n" if new else b""))
            continue
        out.append(b"The best scores are:   s-w\n>> odd row\n; odd row\n")
        out.append(f"{identifier(random)} x - 5 nt  (99) 9\n\n".encode())
        out.append(f">>>{name}, 99 nt vs l library\n; pg_name: ss\n; pg_argv: ss".encode())
        out.append(b"; pg_name_alg: SW\n" if new else b"\n; pg_name: SW\n")
        out.append(b"; mp_stats: none\n")
        for _ in range(hits):
            hit = identifier(random)
            out.append(b">>%s %s\n" % (hit.encode(), description(random)))
            parts = [alignment(random, style, name, hit) for _ in range(random.randint(1, 3))]
            out.append(b">--\n".join(parts))
        out.append(b"\n>>><<<\n" if new else random.choice([b"\n", b""]))
    out.append(b">>>///\n" if new else b">>><<<\n")
    out.append(b"\n99 residues in %d query   sequences\n" % queries)
    out.append(random.choice([b"", b" start: now\n\nFunction used was SSEARCH\n"]))
    return b"".join(out)


def identifier(random):
    return random.choice([*MARKS, *("".join(random.choices("abXY019|._:", k=n)) for n in (1, 14))])


def description(random):
    words = [random.choice([*WORDS, bytes(random.choices(ANY_BYTES, k=3))]) for _ in range(15)]
    return b"".join(words[: random.randint(0, 15)])


def alignment(random, style, query, hit):
    """The lines of an alignment behind its `>>` or `>--` line."""

    def score():
        return random.choice([random.randint(-5, 10**6), 2**31 - 1, 2**31, 2**40])

    def number():
        drawn = [f"{random.uniform(-1e4, 1e4):.1f}", f"{random.uniform(0, 1e-5):6.2g}"]
        return random.choice([*drawn, "0", "     0", "1e-300", "6.", "1e+08"])

    columns = random.randint(1, 130)
    gaps = random.sample(range(columns), min(columns // 2, random.randint(0, 8)))
    reverse = style.frames and style.kind == "D" and random.random() < 0.5
    first, second = style.prefixes
    lines = [f"; {first}_frame: {'r' if reverse else 'f'}"] if style.frames else []
    if style.extra:
        lines += [f"; {first}_initn: {score():3d}", f"; {first}_info: some text"]
    lines.append(f"; {first}_{style.opt}: {score():3d}")
    if style.statistics:
        lines += [f"; {first}_{key}: {number()}" for key in ("z-score", "bits", "expect")]
    if second != "bs":
        lines.append(f"; {second}_score: {score()}")
    lines += [f"; {second}_ident: 0.{random.randint(0, 999):03d}", f"; {second}_sim: 1.000"]
    lines.append(f"; {second}_overlap: {columns}")
    contexts = [random.choice([0, 0, 0, 0, 0, 0, 0, 1, 2, 3]) for _ in range(2)]
    for side, name in enumerate((query[:12], hit)):
        row = random.choices("ACGTNacgt", k=columns)
        for place in gaps[side::2]:
            row[place] = "-"
        context, before = contexts[side], max(contexts)
        start = random.randint(1 + context, 10**4)
        stop, shown = start + columns - row.count("-") - 1, start - context
        if reverse and side == 0:
            start, stop, shown = stop, start, stop + context
        lines += [f">{name} ..", f"; sq_len: {10**5}", *["; sq_offset: 1"] * style.offset]
        lines += [f"; sq_type: {style.kind}", f"; al_start: {start}", f"; al_stop: {stop}"]
        lines += [
            f"; al_display_start: {shown}",
            *wrapped(["-"] * (before - context) + ["A"] * context + row + ["A"] * context),
        ]
    if style.consensus:
        lines += ["; al_cons:", *wrapped(random.choices(" :.-", k=columns))]
    lines += [f"; al_code: ={columns}"] * style.code
    return ("\n".join(lines) + "\n").encode()


def wrapped(letters):
    return ["".join(letters[at : at + 50]) for at in range(0, len(letters), 50)]


@given(
    seed=SEEDS,
    chunk=CHUNKS,
    mode=st.sampled_from(["fast", "auto"]),
    encoding=st.sampled_from(["dict", "bson", "arrow"]),
)
def test_generated_files(seed, chunk, mode, encoding):
    random = Random(seed)
    content = b"".join(search(random) for _ in range(random.randint(1, 3)))
    expected = outcome(content, mode="reference")
    assert expected[0] == "documents", expected
    counts = expected[1]
    assert counts.alignments == content.count(b"_overlap: ")
    assert len(expected[4][Kind.ALIGN]) == counts.alignments
    assert outcome(content, mode=mode, encoding=encoding, chunk_bytes=chunk) == expected


REAL = [
    (DATA / f"{name}.m10").read_bytes()
    for name in ("ssearch36", "ssearch36_nohits", "lalign36_dna", "ssearch35",
                 "ssearch36_protein_codes")
]  # fmt: skip
PIECES = [b"\n", b">", b";", b" ", b"-", b"\r", b"\n\n", b">>><<<\n", b"A", b">--\n"]


def damaged(random):
    """A real output with a few bytes or lines changed, lost or doubled."""
    content = random.choice(REAL)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(content))
        begin = content.rfind(b"\n", 0, at) + 1
        end = content.find(b"\n", at) + 1 or len(content)
        changes = [
            (at, at + 1, random.randbytes(1)),
            (at, at, random.choice(PIECES)),
            (at, at + random.randint(1, 400), b""),
            (begin, end, b""),
            (begin, begin, content[begin:end]),
        ]
        first, last, new = random.choice(changes)
        content = content[:first] + new + content[last:]
    return content


@example(seed=1_410_830_243, chunk=64)  # a carriage return, 30 bytes behind a line feed
@given(seed=SEEDS, chunk=CHUNKS)
def test_damaged_files(seed, chunk):
    """The same documents or the same error, whatever has happened to the file."""
    content = damaged(Random(seed))
    expected = outcome(content, mode="reference", chunk_bytes=chunk)
    assert outcome(content, mode="fast", chunk_bytes=chunk) == expected
    assert outcome(content, mode="fast", encoding="bson", chunk_bytes=chunk) == expected
    if expected[0] == "error":
        _, line, offset, message = expected
        assert line == content.count(b"\n", 0, offset) + 1, message
