"""Columnar rolling values: for each key the values of the last hour, day or ever, when they change."""
