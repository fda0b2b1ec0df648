"""Savepoints: the state of all key groups as tables, taken out of a running query, and put into a new one."""
