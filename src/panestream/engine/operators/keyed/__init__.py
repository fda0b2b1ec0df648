"""Keyed state that is updated in place: which page a key rests in, and how pages are read and written."""
