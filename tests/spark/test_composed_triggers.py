"""Composed triggers on Spark: row by row and on columns, restarted, and in a batch."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches
from tests.spark.test_row_operator import SCHEMA, keyed, row, run, shown, tens

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

BY_TWOS = pst.AfterWatermark().early(pst.triggers.AfterCount.of(2)).late(pst.triggers.AfterCount.of(2))
AT_ROWS = pst.AfterWatermark().early(pst.triggers.AfterCount.of(1)).late(pst.triggers.AfterCount.of(1))
FIRST = [row("ann", 1, 1), row("ann", 2, 2), row("ann", 3, 4), row("bob", 4, 8)]
SECOND = [row("ann", 4, 16), row("ann", 12, 32)]
LATE = [row("ann", 5, 64), row("bob", 6, 128), row("bob", 7, 256)]


@pytest.mark.parametrize(
    ("trigger", "operator", "expected"),
    [
        (
            BY_TWOS,
            "row operator",
            {
                0: [("ann", 0, 10, 3)],
                # The fourth row fires early. Then the watermark closes both windows.
                1: [("ann", 0, 10, 23), ("ann", 0, 10, 23), ("bob", 0, 10, 8)],
                2: [("bob", 0, 10, 392)],
            },
        ),
        (
            AT_ROWS,
            "aligned panes",
            {
                0: [("ann", 0, 10, 7), ("bob", 0, 10, 8)],
                1: [("ann", 0, 10, 23), ("ann", 10, 20, 32), ("bob", 0, 10, 8)],
                2: [("ann", 0, 10, 87), ("bob", 0, 10, 392)],
            },
        ),
    ],
    ids=["row by row", "on columns"],
)
def test_composed_trigger_survives_restarts(spark, tmp_path, trigger, operator, expected):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)

    def result():
        windows = keyed(rows.stream()).window(tens()).trigger(trigger).allowed_lateness("1 minute").options(key_groups=1)
        return windows.aggregate(agg.sum("price"))

    assert operator in result().explain()
    found = {}
    for batch in (FIRST, SECOND, LATE):
        rows.add(batch)
        found |= run(result(), tmp_path / "checkpoint")
    assert found == expected


def test_composed_trigger_in_a_batch_fires_by_rows_and_at_the_end(spark):
    """A batch does not wait for processing time, and has one watermark at its end."""
    df = spark.createDataFrame([*FIRST, *SECOND], SCHEMA).coalesce(1)
    either = pst.triggers.AfterAny.of(pst.triggers.AfterCount.of(3), pst.triggers.AfterProcessingTime.of("1 hour"))
    result = keyed(df).window(tens()).trigger(pst.AfterWatermark().early(either)).aggregate(agg.sum("price"))
    assert shown(result.main.collect()) == [
        ("ann", 0, 10, 23),
        ("ann", 0, 10, 7),
        ("ann", 10, 20, 32),
        ("bob", 0, 10, 8),
    ]
    told = keyed(df).window(tens()).trigger(pst.AfterWatermark()).aggregate(agg.sum("price")).explain()
    assert "AfterWatermark(): the same as EventTimeTrigger.create()" in told
    told = keyed(df).window(tens()).trigger(pst.triggers.AfterCount.of(3)).aggregate(agg.sum("price")).explain()
    assert "it may finish: rows that come for a window after its last firing are dropped" in told
