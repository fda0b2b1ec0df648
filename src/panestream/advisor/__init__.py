"""The lateness advisor: how far behind rows come, how many rows each watermark delay keeps, and its cost in state."""
