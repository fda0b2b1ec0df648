"""The key group of a key that a user typed, as a summary needs it from Spark."""

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.engine.inspection.filters import parse_filter
from panestream.spark.savepoint.decode import groups_of_key

pytestmark = pytest.mark.spark

GROUPS = 1009
"""With this many key groups, a wrong one is never right by chance."""
KEYS = {
    "string": ("a=b", "'a=b'"),
    "boolean": ("TRUE", "true"),
    "smallint": ("-5", "-5S"),
    "decimal(20,3)": ("1.5", "1.500"),
    "date": ("1500-02-28", "DATE'1500-02-28'"),
    "timestamp": ("2026-11-01T05:30Z", "TIMESTAMP'2026-11-01 05:30:00Z'"),
    "timestamp_ntz": ("2026-03-08T02:30", "TIMESTAMP_NTZ'2026-03-08 02:30:00'"),
    "binary": ("0x00ff", "X'00ff'"),
    "string, but none": (r"\N", "CAST(NULL AS string)"),
}


def test_typed_key_is_in_the_key_group_of_the_exchange(spark):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for kind, (typed, literal) in KEYS.items():
            rows = spark.sql(f"SELECT CAST({literal} AS {kind.removesuffix(', but none')}) AS key, now() AS ts")
            stream = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
            windowed = stream.key_by("key").window(pst.TumblingEventTimeWindows.of("1 hour")).options(key_groups=GROUPS)
            plan = windowed.aggregate(agg.count().alias("n")).plan
            expected = rows.select(F.pmod(F.xxhash64("key"), F.lit(GROUPS))).first()[0]
            assert groups_of_key(spark, plan, parse_filter(plan, [typed], [], 1)) == [expected], kind
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
