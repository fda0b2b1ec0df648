"""Tiles: the partials of a key and slice of time, kept outside of any query, and put together to windows when they are read."""
