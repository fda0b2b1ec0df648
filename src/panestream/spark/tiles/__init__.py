"""Tiles as DataFrames: their manifests, and Spark tasks that compute windows and answers from tiles."""
