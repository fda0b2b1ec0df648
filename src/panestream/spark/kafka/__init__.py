"""Kafka's records as columns: how they are read, where they come from, and what a reader of ours does to see each once."""
