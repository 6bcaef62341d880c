"""HBase's tables: made split in advance, with a note of how their documents are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.hbase.connection import FAMILY, Link, idl
from storewise.engines.hbase.rows import layout_of
from storewise.engines.hbase.settings import LEVELS, HbaseSettings
from storewise.engines.support.splits import split_points

NAMESPACE = "default"
#: An attribute of a table; HBase keeps those that it does not know.
_ABOUT = b"STOREWISE"


@dataclass(frozen=True, slots=True)
class About:
    """How the documents of a table are kept, for clients that connect later."""

    layout: str
    study_fields: bool


def tables_of(link: Link, kinds: Sequence[Kind]) -> dict[Kind, About]:
    """The tables of these kinds that there are, but those that somebody else has made."""
    by_name = {kind.table.encode(): kind for kind in kinds}
    tables = link.call("tables", lambda c: c.getTableDescriptorsByNamespace(NAMESPACE))
    notes = {table.tableName.qualifier: (table.attributes or {}).get(_ABOUT) for table in tables}
    return {
        by_name[name]: About(**json.loads(note))
        for name, note in notes.items()
        if note is not None and name in by_name
    }


def make_table(
    link: Link, kind: Kind, schema: Schema, settings: HbaseSettings, level: str, servers: int
) -> None:
    """Make the table of a kind with its regions; they are spread over the region servers."""
    family = idl.TColumnFamilyDescriptor(
        name=FAMILY,
        compressionType=getattr(idl.TCompression, settings.compression.upper()),
        dataBlockEncoding=getattr(idl.TEncoding, settings.block_encoding.upper()),
        maxVersions=1,
    )
    about = About(layout_of(kind, settings.layout), schema.study_fields)
    descriptor = idl.TTableDescriptor(
        tableName=idl.TTableName(qualifier=kind.table.encode()),
        columns=[family],
        attributes={_ABOUT: json.dumps(asdict(about)).encode()},
        durability=getattr(idl.TDurability, LEVELS[level].durability),
    )
    # Without the zeros behind, which no key needs to be told from others.
    keys = [
        point.rstrip(b"\0")
        for point in split_points(kind, max(1, servers) * settings.regions_per_server)
    ]
    link.call(f"create {kind.table}", lambda c: c.createTable(descriptor, keys))
