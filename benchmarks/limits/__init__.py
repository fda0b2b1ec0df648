"""How far panestream goes: ever more keys, ever more late rows."""
