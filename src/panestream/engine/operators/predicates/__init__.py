"""Columnar windows whose rows define their beginnings and ends."""
