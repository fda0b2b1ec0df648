"""Columns for :meth:`~panestream.datastream.DataStream.arrival_order`, the order in which rows of a source arrive.

>>> import panestream as pst
>>> pst.order.KAFKA
('topic', 'partition', 'offset')
"""

from __future__ import annotations

FILE = ("_metadata.file_modification_time", "_metadata.file_path", "_metadata.file_block_start")
"""Rows of files by the file's modification time, as in Spark's streams, then by its name, then by position.

Spark has these columns for a DataFrame that was read from files and then projected, filtered or repartitioned, but not for joins,
unions and aggregations.
"""

KAFKA = ("topic", "partition", "offset")
"""Records of Kafka by topic, partition and offset."""

__all__ = ["FILE", "KAFKA"]


def __dir__() -> list[str]:
    return sorted(__all__)
