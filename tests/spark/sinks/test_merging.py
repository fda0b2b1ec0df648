"""A MergeSink's checks of the table and their order, without Spark. (tests/connectors tests its MERGE.)"""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest.mock import MagicMock

import pytest

from panestream.errors import FencedError, SinkError
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.merging import MergeSink


@dataclass
class Entry:
    """A run's entry in a checkpoint."""

    overtaken: bool = False
    looks: list[bool] = field(default_factory=list)

    def check(self, spark):
        self.looks.append(self.overtaken)
        if self.overtaken:
            raise FencedError("another copy was started later")


@dataclass(frozen=True)
class Slow(MergeSink):
    """Another copy starts while this sink counts the rows of each key, which is a Spark job."""

    overtaken: bool = True

    def table(self, df, kind, options):
        return None

    def _check_single(self, df):
        self.run.epoch.overtaken = self.overtaken

    def _merge(self, spark, found, statement, batch_id):
        self.run.epoch.looks.append("merged")


@pytest.mark.parametrize(("overtaken", "looks"), [(True, [False, True]), (False, [False, False, "merged"])])
def test_copy_that_is_overtaken_before_its_merge_does_not_merge(overtaken, looks):
    entry, rows = Entry(), MagicMock(columns=["user", "window_start", "window_end", "n"])
    sink = Slow("clicks", ["user"], overtaken=overtaken, run=QueryRunInfo("q", epoch=entry))
    if overtaken:
        with pytest.raises(FencedError):
            sink.write(rows, 3)
    else:
        sink.write(rows, 3)
    assert entry.looks == looks
    rows.sparkSession.catalog.dropTempView.assert_called_once()


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("Table implementations does not support MERGE INTO TABLE", True),
        ("[UNSUPPORTED_FEATURE.TABLE_OPERATION] of it", True),
        ("a file is gone", False),
    ],
)
def test_table_without_merge_support_is_named_in_the_error(words, ours):
    sink, cause, asked = MergeSink("t", ["k"]), RuntimeError(words), []

    def refuse(*given):
        asked.append(given)
        raise cause

    with pytest.raises(SinkError if ours else RuntimeError) as raised:
        sink._merge("session", MagicMock(merge=refuse), "MERGE", 7)
    assert asked == [("session", "t", "MERGE", sink.commit(7))]
    if ours:
        assert str(raised.value).startswith("the table t does not support MERGE: a MergeSink needs ")
        assert raised.value.__cause__ is cause
    else:
        assert raised.value is cause
