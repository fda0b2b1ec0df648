"""A day of history in one batch: panestream compared with native Spark, DuckDB and Polars on the same Parquet files."""
