"""A day of history at once: panestream on a batch DataFrame, beside native Spark, DuckDB and Polars on the same Parquet files."""
