"""Generated outputs and broken ones: the fast reader says what the reference reader says."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ssearch_helpers import DATA, outcome, read

from storewise.documents import Kind

RESIDUES = "ACGTNacgt"
SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FLOATS = st.one_of(
    st.floats(-1e4, 1e4).map(lambda x: f"{x:.1f}"),
    st.floats(0, 1e-5).map(lambda x: f"{x:6.2g}"),
    st.sampled_from(["0", "     0", "1e-300", "6.", "1e+08"]),
)
SCORES = st.one_of(st.integers(-5, 10**6), st.sampled_from([2**31 - 1, 2**31, 2**40]))
DESCRIPTIONS = st.text(
    st.characters(exclude_characters="\n\r\0", exclude_categories=("Cs",)), max_size=60
).map(lambda text: text.encode("utf-8")[:61])
#: Ids that look like marks: FASTA files may hold any.
MARKS = [">lead2", ">>x", "1>>>q", "2>>>q", ">2>>>q", "><<<", ">///", ">--", "--", ";", ">q,"]
IDS = st.one_of(st.text("abcXYZ019|._:", min_size=1, max_size=14), st.sampled_from(MARKS))


@dataclass(frozen=True)
class Style:
    """What differs between programs and versions."""

    version: int
    prefixes: tuple[str, str]
    opt: str
    frames: bool
    statistics: bool
    offset: bool
    consensus: bool
    code: bool
    extra: bool
    kind: str


STYLES = st.builds(
    Style,
    version=st.sampled_from([34, 35, 36]),
    prefixes=st.sampled_from([("sw", "sw"), ("fa", "sw"), ("fa", "bs"), ("lsw", "lsw")]),
    opt=st.sampled_from(["s-w opt", "opt"]),
    frames=st.booleans(),
    statistics=st.booleans(),
    offset=st.booleans(),
    consensus=st.booleans(),
    code=st.booleans(),
    extra=st.booleans(),
    kind=st.sampled_from("Dp"),
)


def wrapped(text: str) -> str:
    return "".join(text[i : i + 50] + "\n" for i in range(0, len(text), 50))


@st.composite
def alignments(draw: st.DrawFn, style: Style, query: str, hit: str) -> str:
    """The lines of an alignment behind its `>>` or `>--` line."""
    columns = draw(st.integers(1, 130))
    gaps = [
        draw(st.sets(st.integers(0, columns - 1), max_size=min(4, columns - 1))) for _ in range(2)
    ]
    gaps[1] -= gaps[0]
    base = draw(st.integers(0, 8))
    rows = []
    for missing in gaps:
        letters = [RESIDUES[(base + i * i) % len(RESIDUES)] for i in range(columns)]
        rows.append("".join("-" if i in missing else c for i, c in enumerate(letters)))
    reverse = style.frames and style.kind == "D" and draw(st.booleans())
    first, second = style.prefixes
    lines = []
    if style.frames:
        lines.append(f"; {first}_frame: {'r' if reverse else 'f'}")
    if style.extra:
        lines += [f"; {first}_initn: {draw(SCORES):3d}", f"; {first}_info: some text"]
    lines.append(f"; {first}_{style.opt}: {draw(SCORES):3d}")
    if style.statistics:
        lines += [f"; {first}_{key}: {draw(FLOATS)}" for key in ("z-score", "bits", "expect")]
    if second != "bs":
        lines.append(f"; {second}_score: {draw(SCORES)}")
    lines += [f"; {second}_ident: 0.{draw(st.integers(0, 999)):03d}", f"; {second}_sim: 1.000"]
    lines.append(f"; {second}_overlap: {columns}")
    context = draw(st.integers(0, 3)) if draw(st.integers(0, 9)) == 0 else 0
    for side, (name, row) in enumerate(zip((query[:12], hit), rows, strict=True)):
        letters = columns - row.count("-")
        start = draw(st.integers(1 + context, 10**4))
        stop = start + letters - 1
        shown = start - context
        if reverse and side == 0:
            start, stop = stop, start
            shown = start + context
        lines += [f">{name} ..", f"; sq_len: {10**5}"]
        if style.offset:
            lines.append("; sq_offset: 1")
        lines += [f"; sq_type: {style.kind}", f"; al_start: {start}", f"; al_stop: {stop}"]
        lines.append(f"; al_display_start: {shown}")
        around = "A" * context
        lines.append(wrapped(around + row + around).removesuffix("\n"))
    if style.consensus:
        marks = draw(st.lists(st.sampled_from(" :.-"), min_size=columns, max_size=columns))
        lines += ["; al_cons:", wrapped("".join(marks)).removesuffix("\n")]
    if style.code:
        lines.append(f"; al_code: ={columns}")
    return "\n".join(lines) + "\n"


@st.composite
def searches(draw: st.DrawFn) -> bytes:
    """A whole search as one of the programs would print it."""
    style = draw(STYLES)
    new = style.version >= 36
    out = [
        b"# program -m 10 q l\nSSEARCH searches\n version %d.3 Nov\n" % style.version,
        b"\nQuery: q\n" if new else b"\nQuery library q vs l library\n",
    ]
    queries = draw(st.integers(1, 4))
    for number in range(1, queries + 1):
        name = draw(IDS)
        out.append(b"%3d>>>%s " % (number, name.encode()) + draw(DESCRIPTIONS) + b" - 99 nt\n")
        out.append(b"Library: l\n  99 residues in   9 sequences\n\n>120   0  0:\nStatistics: x\n")
        hits = draw(st.integers(0, 6))
        if not hits:
            out.append(b"!! No sequences with E() < 1\n" + (b">>><<<\n" if new else b""))
            continue
        out.append(b"The best scores are:   s-w\n>> odd row\n; odd row\n")
        out.extend(f"{mark} x - 5 nt  (99) 9\n".encode() for mark in draw(st.lists(IDS)))
        out.append(b"\n")
        out.append(f">>>{name}, 99 nt vs l library\n; pg_name: ss\n; pg_argv: ss".encode())
        out.append(b"; pg_name_alg: SW\n" if new else b"\n; pg_name: SW\n")
        out.append(b"; mp_stats: none\n")
        for _ in range(hits):
            hit = draw(IDS)
            out.append(b">>" + hit.encode() + b" " + draw(DESCRIPTIONS) + b"\n")
            out.append(draw(alignments(style, name, hit)).encode())
            out.extend(
                b">--\n" + draw(alignments(style, name, hit)).encode()
                for _ in range(draw(st.integers(0, 2)))
            )
        out.append(b"\n>>><<<\n" if new else b"\n" if draw(st.booleans()) else b"")
    out.append(b">>>///\n" if new else b">>><<<\n")
    out.append(b"\n99 residues in %d query   sequences\n" % queries)
    if draw(st.booleans()):
        out.append(b" start: now\n\nFunction used was SSEARCH\n")
    return b"".join(out)


FILES = st.lists(searches(), min_size=1, max_size=3).map(b"".join)
CHUNKS = st.sampled_from([64, 333, 2000, 6000, 1 << 20])


@SETTINGS
@given(content=FILES, chunk=CHUNKS)
def test_generated_files(content: bytes, chunk: int) -> None:
    expected = outcome(content, mode="reference")
    assert expected[0] == "documents", expected
    counts = expected[1]
    assert counts.alignments == content.count(b"_overlap: ")
    assert len(expected[4][Kind.ALIGN]) == counts.alignments
    for mode in ("fast", "auto"):
        for encoding in ("dict", "bson"):
            assert outcome(content, mode=mode, encoding=encoding, chunk_bytes=chunk) == expected


REAL = {
    name: (DATA / name).read_bytes()
    for name in ("ssearch36.m10", "ssearch36_nohits.m10", "lalign36_dna.m10", "ssearch35.m10",
                 "ssearch36_protein_codes.m10")
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real output with a few bytes or lines changed, lost or doubled."""
    content = bytearray(REAL[draw(st.sampled_from(sorted(REAL)))])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content) - 1))
        what = draw(st.sampled_from(["byte", "cut", "line lost", "line doubled", "insert"]))
        begin = content.rfind(b"\n", 0, at) + 1
        end = content.find(b"\n", at) + 1 or len(content)
        if what == "byte":
            content[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del content[at : at + draw(st.integers(1, 400))]
        elif what == "line lost":
            del content[begin:end]
        elif what == "line doubled":
            content[begin:begin] = content[begin:end]
        else:
            pieces = [b"\n", b">", b";", b" ", b"-", b"\r", b"\n\n", b">>><<<\n", b"A", b">--\n"]
            content[at:at] = draw(st.sampled_from(pieces))
        if not content:
            break
    return bytes(content)


@settings(SETTINGS, max_examples=250)
@given(content=damaged(), chunk=CHUNKS)
def test_damaged_files(content: bytes, chunk: int) -> None:
    """The same documents or the same error, whatever has happened to the file."""
    expected = outcome(content, mode="reference", chunk_bytes=chunk)
    found = outcome(content, mode="fast", chunk_bytes=chunk)
    assert found == expected
    assert outcome(content, mode="fast", encoding="bson", chunk_bytes=chunk) == expected
    if expected[0] == "error":
        _, line, offset, message = expected
        assert line == content.count(b"\n", 0, offset) + 1, message


def test_what_is_generated_reaches_the_fast_reader() -> None:
    content = b"".join(REAL[name] for name in ("ssearch36.m10", "lalign36_dna.m10"))
    reader, _ = read(content, chunk_bytes=6000)
    assert reader.fast_alignments > 30
