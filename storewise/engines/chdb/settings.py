"""Settings of engine `chdb`."""

from __future__ import annotations

from pydantic import Field as Setting

from storewise.engines.contract.engine import EngineSettings


class ChdbSettings(EngineSettings):
    """Settings of ClickHouse in the client's process."""

    # One thread a statement, for the reason that DuckDB has one: the study sets the clients.
    threads: int = Setting(default=1, ge=1, description="ClickHouse's threads for each statement")
    memory_limit_mib: int = Setting(
        default=2048, ge=64, description="memory that one statement may use, MiB"
    )
