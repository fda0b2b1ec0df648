"""Headers of key groups for which no savepoint is written. Without Spark."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from panestream.engine.savepoint.plans import plan_json
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError
from panestream.spark.savepoint.manifest import SavepointManifest
from panestream.spark.savepoint.saved import write_savepoint
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness

WINDOWING = harness.WindowQuery(TumblingEventTimeWindows(10_000_000))
PLAN = replace(harness.Query(WINDOWING, (agg.count().alias("n"),)).columnar(), groups=3)


def header_after(group, seconds):
    """Return the header of a key group that has one row for each time."""
    state = MemoryState()
    for time in seconds:
        given = harness.group_input(PLAN, harness.MicroBatch([[("ann", time * 1_000_000, 1, None, 1)]]))
        PLAN.operator.for_group(PLAN, state, group).process(given)
    return PLAN.operator.for_group(PLAN, state, group).tables().header


def write_headers(headers):
    """Try to write the headers, without Spark."""
    rows = [SimpleNamespace(key_group=group, header=json.dumps(header)) for group, header in headers.items()]
    told = []
    try:
        write_savepoint(
            None,
            "saved",
            PLAN,
            SimpleNamespace(collect=lambda: rows),
            None,
            SavepointManifest(plan_json(PLAN), [], {}),
            told.append,
        )
    finally:
        assert told == ["reading the state"]


def test_savepoint_of_key_groups_at_several_micro_batches_is_refused():
    together = {group: header_after(group, [3, 15]) for group in (2, 0, 1)}
    with pytest.raises(AttributeError, match="NoneType"):
        write_headers(together)  # the headers are fine, and Spark's part is next
    with pytest.raises(StateDamagedError, match="do not belong together: key group 2 says of its watermarks") as refused:
        write_headers({**together, 2: header_after(2, [3])})
    assert refused.value.group == 2


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_savepoint_with_a_missing_header_is_refused(gone):
    there = {group: header_after(group, [3]) for group in range(3) if group != gone}
    with pytest.raises(StateDamagedError, match=f"the state of key group {gone} is missing: only 2 of 3 exist") as refused:
        write_headers(there)
    assert refused.value.group == gone
