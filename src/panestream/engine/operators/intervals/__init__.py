"""Interval joins: each row of one stream with the rows of the other around its time."""
