"""Kafka records as columns: the source, the reading of keys and values, and deduplication for readers of a topic."""
