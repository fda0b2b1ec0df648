"""Columnar sessions: built in ``pack`` and merged with the open sessions of a key group."""
