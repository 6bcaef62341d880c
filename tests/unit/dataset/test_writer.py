"""The order of rows from any sorted sources."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from storewise.dataset import pieces
from storewise.dataset.settings import Settings
from storewise.dataset.writer import Source, write_files
from storewise.documents import Kind, make_id
from storewise.ssearch.parse.arrow import batch_of

#: Of each source its pieces: (query, input, rows); an input is in one source.
SOURCES = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 9)), min_size=1),
    min_size=1,
    max_size=4,
)


@given(SOURCES, st.integers(1, 20), st.integers(1, 7), st.sets(st.integers(0, 3)))
def test_rows_come_in_the_order_of_their_pieces(sources, row_group, batch, dropped):
    made, wanted = [], []
    for number, source in enumerate(sources):
        table, documents = [], []
        for search, (query, one, rows) in enumerate(sorted(source)):
            digest = bytes([number, one, 0, 0, 0, 0, 0])
            table.append((0, one, "", query, pieces.digest_number(digest), search, rows))
            for row in range(rows):
                document = {"_id": make_id(digest, Kind.RNA, 100 * search + row), "s": query}
                documents.append(document)
                if one not in dropped:
                    wanted.append((query, document["_id"]))
        whole = batch_of(Kind.RNA, documents)
        parts = [whole.slice(start, batch) for start in range(0, len(whole), batch)]
        keep = [one not in dropped for one in range(4)]
        made.append(Source(pieces.table(table), parts, keep))
    with tempfile.TemporaryDirectory() as place:
        files = write_files(made, Path(place), Kind.RNA, 0, "0001", Settings(row_group=row_group))
        read = [pq.ParquetFile(Path(place) / file.name).read() for file in files]
        assert [file.rows for file in files] == [len(table) for table in read]
        rows = pa.concat_tables(read).to_pylist() if read else []
    assert [(row["s"], row["_id"]) for row in rows] == sorted(wanted)
