"""Clicks through Kafka, one partition an hour behind: panestream beside Spark's own ``window()``."""
