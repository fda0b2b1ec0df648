"""A savepoint of a query with several operators: all of them are saved, rescaled, upgraded and restored together."""

from __future__ import annotations

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, PlanMismatchError
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import fired

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning"),
]

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
MONOTONOUS = pst.WatermarkStrategy.for_monotonous_timestamps()
OF_RESULT = "window_end - INTERVAL 1 MICROSECOND"


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def counts(df, groups=2, *more, key="item"):
    """Count the clicks of each item in 10 seconds."""
    keyed = pst.stream(df).assign_timestamps("at", MONOTONOUS).key_by(key)
    windowed = keyed.window(pst.TumblingEventTimeWindows.of("10 seconds")).options(key_groups=groups)
    return windowed.aggregate(agg.count().alias("n"), *more).uid("counts")


def largest(results, groups=3):
    """Return the largest result of each item in a minute."""
    stream = pst.stream(results, transform=lambda rows: rows.where("n < 100")).assign_timestamps(OF_RESULT, MONOTONOUS)
    windowed = stream.key_by("item").window(pst.TumblingEventTimeWindows.of("1 minute")).options(key_groups=groups)
    return windowed.aggregate(agg.max("n").alias("most"), agg.count().alias("results")).uid("largest")


BEFORE = [
    [("a", at(1)), ("b", at(2)), ("a", at(3)), ("c", at(4))],
    [("a", at(12)), ("b", at(14)), ("d", at(27)), ("a", at(28))],
]
AFTER = [[("a", at(29)), ("d", at(29)), ("e", at(45))], [("a", at(72)), ("c", at(73))], [("b", at(150))], [("b", at(190))]]


def folders(spark, tmp_path, name, batches):
    rows = MicroBatches(spark, tmp_path / name, "item string, at timestamp")
    for batch in batches:
        rows.add(batch)
    return rows


def test_chained_windows_go_on_with_other_key_groups_and_an_added_aggregate(spark, tmp_path):
    expected = fired(largest(counts(folders(spark, tmp_path, "all", BEFORE + AFTER).stream())), tmp_path / "whole")
    rows = folders(spark, tmp_path, "rows", BEFORE)
    checkpoint, saved = str(tmp_path / "old"), str(tmp_path / "saved")
    first = fired(largest(counts(rows.stream())), checkpoint)
    taken = pst.savepoint(spark, checkpoint, saved)
    assert taken.operators == ("counts", "largest")
    for name, groups in (("counts", 2), ("largest", 3)):
        state = pst.state.read_savepoint(spark, saved, operator=name)
        assert state.manifest.groups == groups
        assert state.summary().windows > 0, "windows of both operators are open"
        assert pst.state.read_checkpoint(spark, checkpoint, operator=name).summary().windows == state.summary().windows

    # The operator that changed, and one that was removed, are named before anything starts.
    with pytest.raises(PlanMismatchError, match=r"^the operator 'counts' .*another plan.*:\n  key: item .*->  upper"):
        fired(largest(counts(rows.stream(), key="upper(item) AS item")), tmp_path / "x", savepoint=saved)
    alone = counts(rows.stream())
    with pytest.raises(PlanMismatchError, match=r"has state of 'largest' .*allow_non_restored_state=True"):
        fired(alone, tmp_path / "x", savepoint=saved)
    with pytest.raises(CheckpointError, match="has no operator 'count'; did you mean 'counts'"):
        pst.state.read_savepoint(spark, saved, operator="count")

    for batch in AFTER:
        rows.add(batch)
    more = agg.sum("length(item)").alias("added")
    changed = largest(counts(rows.stream(), 3, more, agg.complete("added").alias("whole")), 2)
    rest = fired(changed, tmp_path / "new", savepoint=saved)
    assert sorted([*first, *rest]) == expected
    # A stage was removed, on request: the windows of the other go on.
    assert any(
        "n=" in row for row in fired(counts(rows.stream()), tmp_path / "alone", savepoint=saved, allow_non_restored_state=True)
    )


def joined(views, clicks, *groups):
    """Return how often each item was clicked within 10 seconds after a view of it, in minutes. ``groups`` are key groups or none."""
    of_join, of_minutes = ({"key_groups": each} for each in groups) if groups else ({"tasks": 1}, {"tasks": 1})
    viewed, clicked = (pst.stream(df).assign_timestamps("at", MONOTONOUS).key_by("item") for df in (views, clicks))
    join = clicked.interval_join(viewed).between("-10 seconds", "0 seconds").options(**of_join)
    stream = pst.stream(join.pairs(suffixes=("", "_view"))).assign_timestamps("at", MONOTONOUS)
    minutes = stream.key_by("item").window(pst.TumblingEventTimeWindows.of("1 minute")).options(**of_minutes)
    return minutes.aggregate(agg.count().alias("n"), agg.min("at_view").alias("first"))


VIEWS = [[("a", at(1)), ("b", at(2)), ("a", at(58))], [("b", at(65)), ("a", at(130))], [("b", at(200))]]
CLICKS = [[("a", at(3)), ("b", at(4)), ("a", at(57))], [("a", at(61)), ("b", at(66)), ("a", at(133))], [("b", at(201))]]


def test_join_into_windows_goes_on_with_other_key_groups(spark, tmp_path):
    whole = [folders(spark, tmp_path, name, rows).stream() for name, rows in (("all-v", VIEWS), ("all-c", CLICKS))]
    expected = fired(joined(*whole, 2, 2), tmp_path / "whole")
    streams = [folders(spark, tmp_path, name, rows[:1]) for name, rows in (("v", VIEWS), ("c", CLICKS))]
    checkpoint, folder = tmp_path / "old", tmp_path / "saved"
    first = fired(joined(*(each.stream() for each in streams), 2, 3), checkpoint)
    saved = pst.savepoint(spark, checkpoint, folder)
    assert saved.operators == ("operator-1", "operator-2")
    assert saved.operator("operator-1").summary().elements == 2, "rows that may still have partners"
    assert saved.operator("operator-2").summary().windows > 0
    for each, rows in zip(streams, (VIEWS, CLICKS), strict=True):
        each.add(rows[1])
    # In a join the left stream is source 0.
    clicks, views = (saved.unread(each.stream(), source) for source, each in enumerate(reversed(streams)))
    rest = fired(joined(views, clicks, 3, 5), tmp_path / "new", savepoint=folder, source_offsets="job")
    for each, rows in zip(streams, (VIEWS, CLICKS), strict=True):
        each.add(rows[2])
    # Both operators take the checkpoint's numbers of key groups, whatever the session's number of partitions is.
    rest += fired(joined(*(each.stream() for each in streams)), tmp_path / "new")
    assert sorted([*first, *rest]) == expected
    assert rest
