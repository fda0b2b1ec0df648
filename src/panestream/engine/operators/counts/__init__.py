"""Columnar count windows: a row's window follows from the number of its key's rows before it."""
