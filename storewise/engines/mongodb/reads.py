"""The reading verbs of a MongoDB client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from storewise.documents import Document, Kind
from storewise.engines.contract.queries import Count, Find, Histogram, Query, Scan, Top
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

    def scan(self, query: Scan) -> list[Document]:
        return self._documents(query)

    def find(self, query: Find) -> list[Document]:
        return self._documents(query)

    def _documents(self, query: Scan | Find) -> list[Document]:
        with self._words("find"):
            command = commands.command_of(self._form(query.kind), query)
        # The server takes a limit of 0 for none.
        return [] if query.limit == 0 else self._rows(query.kind, command)

    def _rows(self, kind: Kind, command: commands.Command) -> list[Document]:
        form = self._form(kind)
        sort = list(command["sort"].items()) if "sort" in command else None

        def find() -> list[Document]:
            cursor = self._collections[kind].find(
                command["filter"], limit=command["limit"], sort=sort, allow_disk_use=True
            )
            return list(map(form.document, cursor))

        return self._try("find", find)

    def top(self, query: Top) -> list[tuple[Any, int]]:
        form = self._form(query.kind)
        rows = self._groups("aggregate", query) if query.limit else []
        return [(form.loaded(row["_id"], query.field), int(row["n"])) for row in rows]

    def histogram(self, query: Histogram) -> dict[int, int]:
        return commands.classes(self._form(query.kind), query, self._groups("histogram", query))

    def _groups(self, verb: str, query: Top | Histogram | Count) -> list[dict[str, Any]]:
        with self._words(verb):
            command = commands.command_of(self._form(query.kind), query)
        collection = self._collections[query.kind]
        return self._try(
            verb, lambda: list(collection.aggregate(command["pipeline"], allowDiskUse=True))
        )

    def explain(self, query: Query) -> str:
        """The winning plan in MongoDB's own names of stages and indexes; of shards the first's."""
        with self._words("explain"):
            command = commands.to_explain(self._form(query.kind), query)
            return commands.plan_of(self._mongo[DATABASE].command(command))

    def count(self, query: Count) -> int:
        """Exact. Of a whole kind by a look at all keys: the number in the metadata is wrong after
        a crash, and counts documents twice that a shard has given away."""
        kind = query.kind
        self._form(kind)
        if query.where:
            return sum(int(row["n"]) for row in self._groups("count", query))
        collection = self._collections[kind].with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
        )
        return self._try("count", lambda: collection.count_documents({}))
