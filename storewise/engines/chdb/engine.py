"""ClickHouse in the client's process: a store directory per writing process.

API: https://clickhouse.com/docs/chdb.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from typing import Any, ClassVar

from storewise.engines.chdb.settings import ChdbSettings
from storewise.engines.contract.engine import Client, Cluster, Engine, Mode
from storewise.engines.sql.reads import FLAGS
from storewise.engines.support.installation import output_of
from storewise.errors import EngineError


class ChdbEngine(Engine):
    """ClickHouse in the client's process."""

    name = "chdb"
    language = "sql"
    asks_one_store = True
    title = "ClickHouse (chdb)"
    flags = FLAGS
    encoding = "arrow"
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": (
            "fsync_after_insert=1: a batch is a part of its own, on disk (fsync) when "
            "acknowledged; merges are, too"
        ),
        "relaxed": (
            "a batch is a part of its own, with the operating system when acknowledged; it "
            "survives the death of the process, not that of the machine"
        ),
    }
    Settings = ChdbSettings
    packages = ("chdb", "chdb-core")

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        try:
            return {**super().versions(settings), "clickhouse": _clickhouse()}
        except PackageNotFoundError as error:
            raise EngineError(
                "chdb is not installed: install Storewise with its extra `chdb` (pip install "
                "'storewise[chdb]')"
            ) from error

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        settings: ChdbSettings = self.settings_of(cluster.settings)
        durable = self.level_of(cluster) == "durable"
        stores = self.stores_of(cluster, mode)
        # Only now: its threads do not outlive a fork, and workers fork their clients.
        from storewise.engines.chdb.client import ChdbClient, Shared

        shared = Shared.of(cluster, mode, stores, settings=settings, durable=durable)
        return ChdbClient(shared).connected()


@lru_cache
def _clickhouse() -> str:
    """ClickHouse's version, read in a child process: importing `chdb` starts threads, and the
    caller may fork later."""
    code = "import chdb; print(chdb.engine_version)"
    # On a processor that it was not built for, it crashes without a message.
    return output_of("chdb", (sys.executable, "-P", "-c", code))
