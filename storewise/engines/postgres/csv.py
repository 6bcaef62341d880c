"""Record batches as CSV for COPY, written by Arrow.

Format: https://www.postgresql.org/docs/current/sql-copy.html (CSV Format); texts are quoted, null
is nothing. pyarrow is imported with this module: the client imports it when it gets a batch.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from storewise.documents import ID_BYTES

_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")


def csv_of(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch, ids as PostgreSQL writes bytes: ``\\x`` and hexadecimal digits."""
    arrays = [_in_hex(a) if a.type == pa.binary(ID_BYTES) else a for a in batch.columns]
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), sink, _OPTIONS)
    return bytes(sink.getvalue())


def _in_hex(ids: pa.Array) -> pa.Array:
    start, stop = ids.offset * ID_BYTES, (ids.offset + len(ids)) * ID_BYTES
    digits = memoryview(ids.buffers()[1])[start:stop].hex().encode()
    width = pa.binary(2 * ID_BYTES)
    column = pa.FixedSizeBinaryArray.from_buffers(width, len(ids), [None, pa.py_buffer(digits)])
    texts = pc.binary_join_element_wise("\\x", column.cast(pa.binary()).cast(pa.string()), "")
    return pc.if_else(ids.is_valid(), texts, None)
