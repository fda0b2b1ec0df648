"""Columnar look-back windows: for each row, aggregates of its key's rows before it."""
