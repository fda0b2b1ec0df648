"""Compare panestream with Apache Flink, on the same events, with the same checksums."""
