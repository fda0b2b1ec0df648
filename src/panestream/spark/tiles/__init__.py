"""Tiles as DataFrames: what each says of itself, and how windows and answers are put together from them in Spark's tasks."""
