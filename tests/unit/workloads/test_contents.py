"""What a load will store, told before it: as many documents as it makes, of the size they have."""

import pytest

from storewise.workloads.registry import workload


@pytest.mark.parametrize(
    ("name", "load", "documents", "low", "high"),
    [
        # Ten fields of 100 bytes with their names, and the key.
        ("ycsb", {"recordcount": 5000}, 5000, 1000 + 10 * 12, 1000 + 10 * 16 + 60),
        ("ycsb", {"recordcount": 50, "fieldcount": 1, "fieldlength": 7}, 50, 7 + 12, 90),
        ("ycsb", {"recordcount": 9, "insertstart": 4, "fieldlength": 5}, 5, 150, 300),
        ("measures", {"rows": 12345}, 12345, 60, 100),
    ],
)
def test_documents_and_their_size(name, load, documents, low, high):
    known = workload(name)
    params = known.phases["load"].params.model_validate(load)
    ((kind, content),) = known.contents(params, None, study_fields=False).items()
    assert [kind] == list(known.kinds(load))
    assert content.documents == documents == known.documents_made(load)
    assert low < content.bytes < high
