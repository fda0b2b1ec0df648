"""What running queries tell of each micro-batch: the counters, who listens to them, and what is warned of."""
