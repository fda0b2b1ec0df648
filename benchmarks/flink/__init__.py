"""panestream beside Apache Flink itself, on the same events, with the same checksums."""
