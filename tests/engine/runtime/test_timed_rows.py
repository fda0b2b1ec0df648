"""Rows whose own time decides whether they are late: packed, separated after the exchange, and emitted whole for a late
output.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.plan import Chunk
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.timed_rows import ROWS, TimedRows, pack_timed, timed_schema
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from tests.comparison import harness, look_backs


@pytest.mark.parametrize("late", [True, False])
def test_timed_rows_at_the_watermark_are_late(late):
    plan = look_backs.plan_of(LookBackWindows(5), (agg.count(),), kept=("u",), late=late)
    rows = pa.table({"key": ["a", "b", None], "ts": [4, 5, 6], "v": [1, 2, 3], "x": [None, 1.5, 2.5], "u": [7, 8, 9]})
    rows = rows.cast(harness.ROWS)
    key, number = rows["key"].combine_chunks(), rows["u"].combine_chunks()
    # The plan may have whole rows for other outputs. Without a late output they do not cross.
    plan, chunk = replace(plan, row_schema=harness.ROWS), Chunk(np.array([4, 5, 6]), [key], [number], rows)
    schema = timed_schema(plan, [pa.int64()])
    ((kind, part),) = pack_timed(plan, chunk, schema)
    assert (kind, part.schema, part.num_columns) == (ROWS, schema, 3 + (5 if late else 0))
    timed_rows = TimedRows.of(GroupInput(parts={ROWS: [part.slice(0, 2), part.slice(2)]}), plan, 1, 5)
    assert (timed_rows.keys[0].to_pylist(), timed_rows.times.tolist(), timed_rows.late) == ([None], [6], 2)
    assert [column.to_pylist() for column in timed_rows.inputs] == [[9]]
    assert [table.to_pylist() for table in timed_rows.late_rows] == ([rows.slice(0, 2).to_pylist()] if late else [])
    none = TimedRows.of(GroupInput(parts={ROWS: [part]}), plan, 1, 3)
    assert (none.late, none.late_rows) == (0, [])
    assert TimedRows.of(GroupInput(), plan, 1, 3) is None
