"""Pieces of tables, put in another order."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from storewise.dataset.pieces import arranged

LENGTHS = st.lists(st.integers(0, 200), min_size=1, max_size=30)


@given(LENGTHS, st.randoms(use_true_random=False), st.integers(1, 500), st.booleans())
def test_pieces_are_put_in_order_however_long_they_are(lengths, random, batch, some):
    rows = pa.table({"n": range(sum(lengths)), "text": list(map(str, range(sum(lengths))))})
    pieces = list(zip(np.cumsum([0, *lengths[:-1]]).tolist(), lengths, strict=True))
    random.shuffle(pieces)
    if some:
        del pieces[len(pieces) // 2 + 1 :]
    starts, sizes = (np.array(column) for column in zip(*pieces, strict=True))
    table = pa.Table.from_batches(rows.to_batches(batch), rows.schema)
    wanted = [n for start, size in pieces for n in range(start, start + size)]
    found = arranged(table, starts, sizes)
    assert found["n"].to_pylist() == wanted
    assert found["text"].to_pylist() == list(map(str, wanted))


def test_a_table_in_order_is_not_copied():
    rows = pa.table({"n": range(10)})
    assert arranged(rows, np.array([0, 4]), np.array([4, 6])) is rows
