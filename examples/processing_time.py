"""Count the orders that arrive every two seconds by the clock, whatever their own time is, and end such a query.

Windows of processing time fire when their time is over, even if no more rows arrive. So the query never ends by itself, and
Spark's trigger `availableNow` is refused. Use `processingTime`, and stop the query when you have seen enough. Open windows stay
in the checkpoint, and the query resumes with them when it starts again. Windows that ended meanwhile fire with the first new
rows, since Spark runs no micro-batch before.

    python examples/processing_time.py
"""

from __future__ import annotations

import argparse
import time
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

ORDERS_SCHEMA = "shop string, price bigint"
# Each list arrives as one micro-batch.
ORDERS = [
    [("north", 3), ("south", 5), ("north", 4)],
    [("south", 1)],
    [("north", 6), ("south", 2)],
]


def sales(orders: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each shop and two seconds of the clock. No event time is needed."""
    return (
        pst.stream(orders)
        .key_by("shop")
        .window(pst.TumblingProcessingTimeWindows.of("2 seconds"))
        .aggregate(agg.count().alias("orders"), agg.sum("price").alias("revenue"))
    )


def wait_for_orders(found: pst.MemorySink, orders: int, seconds: float) -> None:
    """Wait until the windows that have fired contain a number of orders, at most some seconds."""
    deadline = time.monotonic() + seconds
    while sum(row.orders for row in found.rows) < orders and time.monotonic() < deadline:
        time.sleep(0.2)


def main() -> None:
    """Let orders arrive while the query runs, wait for their windows, and stop it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("processing time", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        orders = MicroBatches(spark, f"{folder}/orders", ORDERS_SCHEMA)
        found = pst.MemorySink()
        query = sales(orders.stream()).start(
            main=found, checkpoint=f"{folder}/checkpoint", trigger={"processingTime": "500 milliseconds"}
        )
        for batch in ORDERS:
            orders.add(batch)
            time.sleep(1)
        wait_for_orders(found, sum(map(len, ORDERS)), seconds=60)
        query.stop()
        for row in sorted(found.rows, key=lambda row: (row.window_start, row.shop)):
            print(f"{row.window_start:%H:%M:%S} to {row.window_end:%H:%M:%S}  {row.shop}: {row.orders} orders, {row.revenue}")


if __name__ == "__main__":
    main()
