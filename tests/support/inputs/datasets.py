"""What a data set holds, read back from its files, and what it should hold."""

import io
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from support.inputs.ssearch import ReferenceReader

from storewise.documents import KINDS, PARAMS_COLUMN, Kind
from storewise.ssearch.parse.stream import content_digest

Documents = dict[Kind, dict[bytes, dict[str, Any]]]


def expected(paths, *, study_fields=False):
    """The documents of the reference reader, by id; equal inputs count once."""
    result = {kind: {} for kind in KINDS}
    for path in paths:
        for kind, documents in _reference(Path(path).read_bytes(), study_fields).items():
            result[kind] |= documents
    return result


@cache
def _reference(content, study_fields):
    digest = content_digest(io.BytesIO(content))
    source = io.BytesIO(content)
    reader = ReferenceReader(source, digest, study_fields=study_fields)
    result = {kind: {} for kind in KINDS}
    for batch in reader:
        for kind, documents in batch:
            result[kind] |= {document["_id"]: document for document in documents}
    return result


def files_of(root, kind):
    """The data files of a kind."""
    return sorted((root / kind.table).glob("part=*/*.parquet"))


def stored(root):
    """The documents of a data set by id; fails for one that is there twice."""
    result = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for path in files_of(root, kind):
            for row in pq.ParquetFile(path).read().to_pylist():
                document = {**row, **orjson.loads(row.pop(PARAMS_COLUMN, "{}"))}
                document.pop(PARAMS_COLUMN, None)
                assert document["_id"] not in result[kind]
                result[kind][document["_id"]] = document
    return result


def check_order(root, by, sort=None):
    """Fails where rows are not in their order, or documents of one search are apart."""
    names, searches = {}, defaultdict(set)
    for path in files_of(root, Kind.TASKS):
        for row in pq.ParquetFile(path).read().to_pylist():
            names[row["_id"]] = (row["lib"], row["q"])
    for kind in KINDS:
        for path in files_of(root, kind):
            keys = []
            for row in pq.ParquetFile(path).read().to_pylist():
                search = row["ti"] if kind is not Kind.TASKS else row["_id"]
                library, query = names[search]
                order = sort or {"hash": "id"}.get(by, by)
                before = {"id": (), "query": (query,), "library": (library, query)}[order]
                keys.append((*before, row["_id"]))
                shared = {"hash": row["_id"][:7], "query": query, "library": library}[by]
                searches[shared].add(path.parent.name)
            assert keys == sorted(keys)
    assert all(len(partitions) == 1 for partitions in searches.values())


def inputs_of(root):
    """The rows of a data set's inputs, in the order of their paths."""
    rows = [
        row
        for path in (root / "inputs").glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    return sorted(rows, key=lambda row: row["path"])
