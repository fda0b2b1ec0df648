"""Progress of running queries per micro-batch: counters, listeners and warnings."""
