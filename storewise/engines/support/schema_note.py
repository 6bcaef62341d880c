"""A schema as the text that servers keep beside the documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.support.table import named_kinds

#: One row of JSON that says what `create` made, for those who connect later.
SCHEMA_TABLE = "storewise_schema"


def describe(schema: Schema, layout: str) -> str:
    """A schema and its layout as the JSON text that the servers keep."""
    return json.dumps(
        {
            "layout": layout,
            "kinds": [kind.table for kind in schema.kinds],
            "study_fields": schema.study_fields,
            "index_time": schema.index_time,
            "indexes": [[kind.table, name] for kind, name in schema.indexes],
        }
    )


def described(text: str, kinds: Sequence[Kind]) -> tuple[Schema, str]:
    """The inverse of `describe`, of a workload that has these `kinds`: (schema, layout).

    EngineError for tables of another workload."""
    content = json.loads(text)
    stored = named_kinds(content["kinds"], kinds)
    known = {kind.table: kind for kind in stored}
    schema = Schema(
        kinds=stored,
        indexes=tuple((known[table], name) for table, name in content["indexes"]),
        index_time=content["index_time"],
        study_fields=content["study_fields"],
    )
    return schema, content["layout"]
