"""Tiles: partials of a key and time pane, stored outside of queries and combined into windows when read."""
