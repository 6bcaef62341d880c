"""Parquet files, read through DuckDB."""
