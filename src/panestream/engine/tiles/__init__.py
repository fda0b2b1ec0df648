"""Tiles: partials of a key and time slice, stored outside of queries and combined into windows when read."""
