"""Settings of the engine: partitioning, location and reader of its data set."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Setting
from pydantic import model_validator

from storewise.dataset.settings import MAX_PARTITIONS, By
from storewise.engines.sql.duckdb_reads import DuckSettings
from storewise.s3.uri import is_remote

Reader = Literal["duckdb", "pyarrow"]


class ParquetSettings(DuckSettings):
    """Settings of the Parquet files."""

    partition: By = Setting(
        default="hash",
        description="which documents share a partition, as `convert --by`: `hash`, `query` or "
        "`library`",
    )
    partitions: int | None = Setting(
        default=None,
        ge=1,
        le=MAX_PARTITIONS,
        description="partitions of a kind; by default as many as give files of 512 MB, at most 64",
    )
    # A point read decodes one row group, so small groups make it cheap: 4,000 to 10,000 rows read
    # five to ten times as fast as DuckDB's usual 122,880, for less than a percent of size.
    row_group_size: int = Setting(
        default=8192,
        ge=1,
        description="documents of a row group in the finished files: a read by id decodes one",
    )
    reader: Reader | None = Setting(
        default=None, description="who reads the files; by default duckdb, on S3 pyarrow"
    )
    place: str | None = Setting(
        default=None,
        description="a directory, or s3://BUCKET/PREFIX, below which trials have their data sets; "
        "by default the store directory of the trial",
    )

    @model_validator(mode="after")
    def _can_read(self) -> ParquetSettings:
        if self.reader == "duckdb" and self.place is not None and is_remote(self.place):
            raise ValueError(
                "reader: DuckDB needs an extension for S3 that a worker does not load; "
                "use `reader: pyarrow`, or leave it out"
            )
        return self
