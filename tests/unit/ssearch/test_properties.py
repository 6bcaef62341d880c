"""Generated outputs and broken ones: the fast reader says what the reference reader says."""

from hypothesis import given
from hypothesis import strategies as st
from support.inputs.generated import CHUNKS, FILES
from support.inputs.ssearch import DATA, agreed, outcome

from storewise.documents import Kind


@given(
    content=FILES,
    chunk=CHUNKS,
    mode=st.sampled_from(["fast", "auto"]),
    encoding=st.sampled_from(["dict", "bson", "arrow"]),
)
def test_generated_files(content, chunk, mode, encoding):
    expected = outcome(content, mode="reference")
    assert expected[0] == "documents", expected
    counts = expected[1]
    assert counts.alignments == content.count(b"_overlap: ")
    assert len(expected[4][Kind.ALIGN]) == counts.alignments
    assert outcome(content, mode=mode, encoding=encoding, chunk_bytes=chunk) == expected
    assert agreed(content, chunk) == (counts.queries, counts.hits, counts.alignments)


REAL = {
    name: (DATA / name).read_bytes()
    for name in ("ssearch36.m10", "ssearch36_nohits.m10", "lalign36_dna.m10", "ssearch35.m10",
                 "ssearch36_protein_codes.m10")
}  # fmt: skip


@st.composite
def damaged(draw):
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


@given(content=damaged(), chunk=CHUNKS)
def test_damaged_files(content, chunk):
    """The same documents or the same error, whatever has happened to the file."""
    expected = outcome(content, mode="reference", chunk_bytes=chunk)
    result = outcome(content, mode="fast", chunk_bytes=chunk)
    assert result == expected
    assert outcome(content, mode="fast", encoding="bson", chunk_bytes=chunk) == expected
    if expected[0] == "error":
        _, line, offset, message = expected
        assert line == content.count(b"\n", 0, offset) + 1, message
