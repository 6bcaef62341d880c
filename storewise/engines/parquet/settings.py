"""Settings of the engine: how its data set is laid out, where it is, and who reads it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator, model_validator

from storewise.dataset.settings import MAX_PARTITIONS, By, Sort, Wanted, parse_size
from storewise.engines.sql.duckdb_reads import DuckSettings
from storewise.errors import StorewiseError
from storewise.s3.uri import is_remote

Reader = Literal["duckdb", "pyarrow"]


class ParquetSettings(DuckSettings):
    """Settings of the Parquet files."""

    partition: By = Setting(
        default="hash", description="which documents share a partition, as `convert --by`"
    )
    partitions: int | None = Setting(
        default=None,
        ge=1,
        le=MAX_PARTITIONS,
        description="partitions of a kind; by default what gives files of the target size",
    )
    sort: Sort | None = Setting(
        default=None, description="how files are sorted; by default as the partition says"
    )
    target_size: str = Setting(default="512MB", description="a file is full at this size")
    # A point read decodes one row group, so small groups make it cheap: 4,000 to 10,000 rows read
    # five to ten times as fast as DuckDB's usual 122,880, for less than a percent of size.
    row_group_size: int = Setting(
        default=8192, ge=1, description="documents of a row group in the finished files"
    )
    compression_level: int = Setting(
        default=3, ge=1, le=22, description="zstd level of the finished files"
    )
    buffer_documents: int = Setting(
        default=65536,
        ge=1,
        description="relaxed only: documents of a kind in memory before a part is written",
    )
    reader: Reader | None = Setting(
        default=None, description="who reads the files; by default duckdb, on S3 pyarrow"
    )
    place: str | None = Setting(
        default=None,
        description="a directory, or s3://BUCKET/PREFIX, below which trials have their data sets; "
        "by default the store directory of the trial",
    )

    @field_validator("target_size")
    @classmethod
    def _is_size(cls, text: str) -> str:
        try:
            parse_size(text)
        except StorewiseError as error:
            raise ValueError(str(error)) from error
        return text

    @model_validator(mode="after")
    def _can_read(self) -> ParquetSettings:
        if self.reader == "duckdb" and self.place is not None and is_remote(self.place):
            raise ValueError(
                "reader: DuckDB needs an extension for S3 that a worker does not load; "
                "use `reader: pyarrow`, or leave it out"
            )
        return self

    def wanted(self, *, study_fields: bool = False, one: bool = False) -> Wanted:
        """What the data set is asked to be; with `one` it has one partition."""
        return Wanted(
            by=self.partition,
            partitions=1 if one else self.partitions,
            target_bytes=parse_size(self.target_size),
            study_fields=study_fields,
            row_group=self.row_group_size,
            level=self.compression_level,
            sort=self.sort,
        )

    @property
    def by_names(self) -> list[str]:
        """Those of the settings, as a study has them, that need names of queries and libraries."""
        values: dict[str, Any] = {"partition": self.partition, "sort": self.sort}
        return [f"{name}: {value}" for name, value in values.items() if value in _NAMES]


_NAMES = ("query", "library")
