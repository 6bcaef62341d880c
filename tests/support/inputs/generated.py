"""Outputs of SSEARCH made by hypothesis, in all styles."""

from dataclasses import dataclass

from hypothesis import strategies as st

RESIDUES = "ACGTNacgt"
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


def wrapped(text):
    return "".join(text[i : i + 50] + "\n" for i in range(0, len(text), 50))


@st.composite
def alignments(draw, style, query, hit):
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
def searches(draw):
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
