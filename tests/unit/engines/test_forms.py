"""The forms of documents that engines ask for, and what they go on with."""

import pytest

from storewise.documents import Kind
from storewise.engines.registry import engine
from storewise.engines.support.forms import is_batch, taken
from storewise.engines.support.table import make_table
from storewise.ssearch.parse.arrow import batch_of


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_documents_of_the_layout_json_come_as_dicts(name):
    assert engine(name).encoding_of({"layout": "json"}) == "dict"
    assert engine(name).encoding_of({"layout": "columns", "bulk": "insert"}) == "arrow"


def test_a_table_of_arrow_is_no_batch():
    import pyarrow as pa

    batch = batch_of(Kind.RNA, [])
    assert is_batch(batch)
    assert not is_batch(pa.Table.from_batches([batch]))
    assert not is_batch([]) and not is_batch(())
    rows = [{"_id": bytes(12)}]
    assert taken(make_table(Kind.RNA, study_fields=False), rows) is rows
