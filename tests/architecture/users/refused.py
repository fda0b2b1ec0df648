"""A user's file with mistakes, one a line: type checkers must find each line that ends in `# wrong`."""

from __future__ import annotations

from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg


def mistakes(clicks: DataFrame) -> None:
    pst.stream("clicks")  # wrong
    pst.stream(clicks, "ts", "5 seconds")  # wrong
    events = pst.stream(clicks, time="ts", out_of_orderness="5 seconds")
    pst.tumbling(10)  # wrong
    pst.slidding("1 hour", "5 minutes")  # wrong
    windowed = events.group_by("user", pst.tumbling("1 hour"))
    windowed.trigger("1 minute")  # wrong
    windowed.options(key_group=8)  # wrong
    windowed.allowed_lateness(None)  # wrong
    result = windowed.agg(agg.sum("price").alias("total"))
    result.top("3", "total")  # wrong
    result.start(main="out", checkpoint="checkpoint")  # wrong
    count: int = result.main  # wrong
    print(count)
