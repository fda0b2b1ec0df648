"""Savepoints: the state of all key groups as tables, exported from a running query and loaded into a new one."""
