"""The lateness advisor: how far behind rows come, which delay of the watermark keeps how many, and what it costs in state."""
