"""What is refused before a savepoint is written: without Spark, by the headers of the key groups."""

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

WINDOWING = harness.WindowSpec(TumblingEventTimeWindows(10_000_000))
PLAN = replace(harness.Query(WINDOWING, (agg.count().alias("n"),)).columnar(), groups=3)


def header_after(group, seconds):
    """The header of a key group to which a row of each of these times has come."""
    state = MemoryState()
    for time in seconds:
        given = harness.group_input(PLAN, harness.MicroBatch([[("ann", time * 1_000_000, 1, None, 1)]]))
        PLAN.operator.for_group(PLAN, state, group).process(given)
    return PLAN.operator.for_group(PLAN, state, group).tables().header


def written(headers):
    """What comes of it, where nobody answers for Spark."""
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


def test_key_groups_of_several_micro_batches_are_refused():
    together = {group: header_after(group, [3, 15]) for group in (2, 0, 1)}
    with pytest.raises(AttributeError, match="NoneType"):
        written(together)  # nothing is wrong with them: next is Spark's part
    with pytest.raises(StateDamagedError, match="do not belong together: key group 2 says of its watermarks") as refused:
        written({**together, 2: header_after(2, [3])})
    assert refused.value.group == 2


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_key_group_without_a_header_is_gone(gone):
    there = {group: header_after(group, [3]) for group in range(3) if group != gone}
    with pytest.raises(StateDamagedError, match=f"the state of key group {gone} is gone: there are 2 of 3") as refused:
        written(there)
    assert refused.value.group == gone
