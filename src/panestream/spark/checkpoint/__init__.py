"""Records of panestream in a checkpoint: which query it belongs to, which run holds it, and from which state it began."""
