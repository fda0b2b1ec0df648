"""The look-back operator: what rests and for how long, what it reads for a few rows, and its limit of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.storage.state import MemoryState
from panestream.errors import MemoryLimitError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.assigners.several import SeveralWindows
from tests.comparison import harness, look_backs

COUNT = (agg.count().alias("n"), agg.sum("v").alias("s"))


def process(plan, state, rows, **more):
    given = harness.group_input(plan, harness.MicroBatch([rows], **more))
    return plan.operator.for_group(plan, state, 0).process(given)


def minute(number, keys="abcdefgh"):
    """Rows of one minute, a hundred for each key; time is in seconds."""
    return [(key, 60 * number + second, 1, None, second) for key in keys for second in range(60)]


def test_what_no_row_can_look_back_to_goes():
    plan, state, sizes = look_backs.plan_of(LookBackWindows(120), COUNT, ("ts",), 5), MemoryState(), []
    for number in range(40):
        output = process(plan, state, minute(number))
        sizes.append(sum(map(len, state.values.values())))
        assert output.metrics.kept_windows == 8 * 6  # rows of the last seconds wait: those behind the watermark are out
    assert max(sizes[20:]) <= 1.01 * max(sizes[:20])  # numbers of blocks have more digits
    tables = plan.operator.for_group(plan, state, 0).tables().tables
    assert min(tables["history"]["time"].to_pylist()) == 40 * 60 - 1 - 6 + 1 - 120
    assert tables["waiting"].num_rows == 8 * 6


def test_the_history_of_other_keys_is_left_out_where_few_rows_ask():
    plan, state = look_backs.plan_of(LookBackWindows(10_000), COUNT, ("ts",)), MemoryState()
    for number in range(5):
        process(plan, state, minute(number))
    limited = replace(plan, most_bytes=20_000)
    with pytest.raises(MemoryLimitError, match="what its rows look back to"):
        process(limited, MemoryState(dict(state.values)), minute(5))
    # Of one key the history is small enough.
    process(plan, state, [("a", 400, 1, None, 1)])
    found = process(limited, state, [("a", 402, 1, None, 2)])
    assert [row for _, table in found.tables for row in harness.rows_of(plan, table)] == [(("a",), (400, 301, 301))]


def test_of_several_look_backs_the_longest_is_kept():
    several = SeveralWindows.of({"short": LookBackWindows(1), "long": LookBackWindows(500, 50)})
    plan = look_backs.plan_of(several, COUNT, ())
    assert (plan.operator.longest, plan.operator.ahead) == (500, 50)
    assert plan.main_schema.names == ["key", "n_short", "s_short", "n_long", "s_long"]
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "short: the 1 microsecond before each row, and the row itself" in explained
    assert "long: the 500 microseconds before each row and 50 microseconds after it, and the row itself" in explained
