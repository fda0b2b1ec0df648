"""The headers of a ``KafkaSink``'s records."""

ID = "panestream-id"
"""The record's unique id, which stays the same if it is written again. 32 hexadecimal digits."""
WRITER = "panestream-writer"
"""Query and output: ``QUERY/OUTPUT``."""
BATCH = "panestream-batch"
"""The number of the micro-batch."""
