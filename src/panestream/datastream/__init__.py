"""The fluent API: a DataFrame becomes a stream of events that is keyed, windowed and aggregated.

Steps return immutable objects, and nothing runs before a result is written. ``df.isStreaming`` selects streaming or batch.

>>> clicks.key_by("user").window(pst.tumbling("1 hour")).aggregate(agg.count().alias("n")).main.columns
['user', 'window_start', 'window_end', 'n']
"""

from panestream.datastream.as_of_join import AsOfJoin
from panestream.datastream.co_grouped import CoGroupedStream, CoGroupedWindows, IntervalJoin, IntervalPairs, JoinByTime
from panestream.datastream.events import Options
from panestream.datastream.kafka import KafkaStream, from_kafka
from panestream.datastream.keyed import DataStream, KeyedStream, stream
from panestream.datastream.prepared import PreparedQuery, prepare
from panestream.datastream.process import BroadcastConnectedStream
from panestream.datastream.result import WindowedResult
from panestream.datastream.stored import StoredPanes, from_panes
from panestream.datastream.windowed import WindowedStream
from panestream.spark.progress.micro_batch import PartitionProgress

__all__ = [
    "AsOfJoin",
    "BroadcastConnectedStream",
    "CoGroupedStream",
    "CoGroupedWindows",
    "DataStream",
    "IntervalJoin",
    "IntervalPairs",
    "JoinByTime",
    "KafkaStream",
    "KeyedStream",
    "Options",
    "PartitionProgress",
    "PreparedQuery",
    "StoredPanes",
    "WindowedResult",
    "WindowedStream",
    "from_kafka",
    "from_panes",
    "prepare",
    "stream",
]


def __dir__() -> list[str]:
    return sorted(__all__)
