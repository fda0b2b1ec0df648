"""Runs windows under Spark's contract without Spark: every crash, repetition and restart of a schedule, the same for the same seed."""
