"""Clicks through Kafka, with one partition an hour late: panestream compared with Spark's own ``window()``."""
