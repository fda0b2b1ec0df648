"""What the records of a ``KafkaSink`` say of themselves in their headers."""

ID = "panestream-id"
"""The record's own: the same whenever it is written again, of no other record. 32 hexadecimal digits."""
WRITER = "panestream-writer"
"""Query and output: ``QUERY/OUTPUT``."""
BATCH = "panestream-batch"
"""The number of the micro-batch."""
