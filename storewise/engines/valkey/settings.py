"""What a study may say of Valkey, and what its levels of consistency are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.server import ServerSettings
from storewise.engines.support.servers import refuse_reserved

CONSISTENCIES: Mapping[str, str] = {
    "durable": "appendfsync always: the log of writes is on disk (fsync)",
    "relaxed": "appendfsync everysec: the operating system has the log, the disk a second later",
    "memory": "appendonly no: nothing is written to disk, a stop of the server ends the documents",
}
#: The log of writes by level: https://valkey.io/topics/persistence/
APPEND: Mapping[str, Mapping[str, str]] = {
    "durable": {"appendonly": "yes", "appendfsync": "always"},
    "relaxed": {"appendonly": "yes", "appendfsync": "everysec"},
    "memory": {"appendonly": "no"},
}
#: The server itself takes capitals, too, and `include FILE` is a line of its configuration.
_KEY = re.compile(r"[a-z][a-z0-9-]*")


class ValkeySettings(ServerSettings):
    """Settings of Valkey."""

    memory_share: float = Setting(
        default=0.6,
        gt=0,
        le=0.9,
        description="`maxmemory` as a share of the node's memory; documents beyond it are refused",
    )
    timeout_seconds: float = Setting(default=60.0, gt=0, description="time for an answer")
    config: dict[str, bool | int | float | str] = Setting(
        default_factory=dict,
        description="more lines of valkey.conf, such as `hash-max-listpack-value: 128`",
    )

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        refuse_reserved(config, __package__)
        for key, value in config.items():
            if not _KEY.fullmatch(key) or any(letter in str(value) for letter in "\n\r\0"):
                raise ValueError(f"{key!r} is no line of valkey.conf")
        return config

    def most_bytes(self, memory_mb: int) -> int:
        """`maxmemory` of a node with so much memory (MiB)."""
        return int(self.memory_share * memory_mb) << 20
