"""Data sets: the documents of very many SSEARCH outputs in a few large, sorted Parquet files."""
