"""Self-contained pages and their pictures, without scripts, for light and dark themes and for wide and narrow screens."""
