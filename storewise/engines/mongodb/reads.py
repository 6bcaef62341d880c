"""The reading verbs of a MongoDB client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Verb, Where
from storewise.engines.mongodb import commands
from storewise.engines.mongodb.cluster import DATABASE
from storewise.engines.mongodb.connection import MongoLink

_IN_LIST = 1000


class MongoReads(MongoLink):
    """What changes nothing."""

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        form = self._form(kind)
        with self._words("get"):
            condition = {"_id": form.stored_id(document_id)}
        found = self._try("get", lambda: self._collections[kind].find_one(condition))
        return None if found is None else form.document(found)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        form = self._form(kind)
        with self._words("get"):
            wanted = [form.stored_id(i) for i in dict.fromkeys(document_ids)]
        found: dict[bytes, Document] = {}
        for start in range(0, len(wanted), _IN_LIST):
            condition = {"_id": {"$in": wanted[start : start + _IN_LIST]}}
            for document in self._rows(kind, {"filter": condition, "limit": 0}):
                found[document["_id"]] = document
        return [found.get(document_id) for document_id in document_ids]

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        with self._words("scan"):
            command = commands.scan(self._form(kind), start, limit)
        return self._rows(kind, command) if limit else []

    def range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        with self._words("range"):
            command = commands.between(self._form(kind), field_name, low, high, limit)
        return [] if limit == 0 else self._rows(kind, command)

    def find(
        self,
        kind: Kind,
        where: Sequence[Where] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Document]:
        with self._words("find"):
            command = commands.find(self._form(kind), where, order_by, descending, limit)
        return [] if limit == 0 else self._rows(kind, command)

    def _rows(self, kind: Kind, command: commands.Command) -> list[Document]:
        form = self._form(kind)
        sort = list(command["sort"].items()) if "sort" in command else None

        def find() -> list[Document]:
            cursor = self._collections[kind].find(
                command["filter"], limit=command["limit"], sort=sort, allow_disk_use=True
            )
            return list(map(form.document, cursor))

        return self._try("find", find)

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        form = self._form(kind)
        command = commands.aggregate(form, field_name, limit)
        if limit == 0:
            return []
        rows = self._groups("aggregate", kind, command)
        return [(form.loaded(row["_id"], field_name), int(row["n"])) for row in rows]

    def count_where(self, kind: Kind, where: Sequence[Where]) -> int:
        with self._words("count"):
            command = commands.count_where(self._form(kind), where)
        return sum(int(row["n"]) for row in self._groups("count", kind, command))

    def histogram(
        self, kind: Kind, field_name: str, width: float, where: Sequence[Where] = ()
    ) -> dict[int, int]:
        with self._words("histogram"):
            form = self._form(kind)
            command = commands.histogram(form, field_name, width, where)
        return commands.classes(form, field_name, width, self._groups("histogram", kind, command))

    def _groups(self, verb: str, kind: Kind, command: commands.Command) -> list[dict[str, Any]]:
        collection = self._collections[kind]
        return self._try(
            verb, lambda: list(collection.aggregate(command["pipeline"], allowDiskUse=True))
        )

    def explain(self, verb: Verb, kind: Kind, *arguments: Any, **named: Any) -> str:
        """The winning plan in MongoDB's own names of stages and indexes; of shards the first's."""
        with self._words("explain"):
            command = commands.to_explain(verb, self._form(kind), arguments, named)
            return commands.plan_of(self._mongo[DATABASE].command(command))

    def count(self, kind: Kind) -> int:
        """Exact, by a look at all keys: the number in the metadata is wrong after a crash, and
        counts documents twice that a shard has given away."""
        self._form(kind)
        collection = self._collections[kind].with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
        )
        return self._try("count", lambda: collection.count_documents({}))
