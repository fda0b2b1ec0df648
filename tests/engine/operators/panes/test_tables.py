"""Restoring state of several kinds of windows under another order of the windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.savepoint.key_groups import rescaled
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from tests.comparison import harness
from tests.comparison.savepoints import Query, placement

KINDS = {"short": TumblingEventTimeWindows(10), "long": TumblingEventTimeWindows(20), "other": TumblingEventTimeWindows(10)}


def query(*labels, groups=1):
    windowing = WindowQuery(SeveralWindows.of({label: KINDS[label] for label in labels}), allowed_lateness=100)
    more = {"with_firing": True, "changelog": True}
    return Query(harness.Query(windowing, (agg.sum("v").alias("total"),), more=more).columnar(), groups)


def batch(*rows):
    return harness.MicroBatch([[(key, time, value, None, value) for key, time, value in rows]])


def rows_emitted(query, *rows):
    """Return (label, total, firing number, changelog operation) of each row that a micro-batch emits."""
    (state,) = query.states
    output = query.plan.operator.for_group(query.plan, state, 0).process(query._input(batch(*rows), 0))
    rows = pa_rows([table.select(["window", "total", "firing_number", "op"]) for _, table in output.tables])
    return sorted(rows)


def pa_rows(tables):
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def restart(before, *labels, forget=()):
    saved = [
        replace(tables, header={name: value for name, value in tables.header.items() if name not in forget})
        for tables in before.tables()
    ]
    again = query(*labels)
    again.restore(rescaled(saved, again.plan, placement, 1))
    return again


@pytest.mark.parametrize("groups", [1, 2])
def test_state_of_several_windows_is_restored_by_label(groups):
    before = query("short", "long", groups=groups)
    before.run(batch(("a", 3, 7), ("b", 40, 1)))
    again = restart(before, "other", "long", "short")
    (saved,) = again.tables()
    view = again.plan.operator.views(again.plan, saved, 0).windows.to_pylist()
    fired = {(row["window"], row["firings"]) for row in view if row["key"] == {"key": "a"}}
    assert fired == {("other", 0), ("long", 1), ("short", 1)}
    assert rows_emitted(again, ("a", 4, 1)) == [
        ("long", 7, 0, "update_before"),
        ("long", 8, 1, "update_after"),
        ("other", 8, 0, "insert"),
        ("short", 7, 0, "update_before"),
        ("short", 8, 1, "update_after"),
    ]


def test_state_without_labels_is_restored_by_position():
    before = query("short", "long")
    before.run(batch(("a", 3, 7), ("b", 40, 1)))
    again = restart(before, "other", "long", forget=["labels"])
    assert rows_emitted(again, ("a", 4, 1))[2:] == [("other", 7, 0, "update_before"), ("other", 8, 1, "update_after")]
