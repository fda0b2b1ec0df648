"""The engine: pure and deterministic. Imports neither pyspark nor a clock; time, watermark and state are handed in."""
