"""How many files a row passes. A reader who follows a row must read all of them."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange.group_run import bodies, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.functions import applied, processed
from panestream.windowing.watermarks import WatermarkStrategy

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "panestream"
MOST = {"sliding aggregate": 22, "apply": 18, "process": 22}
"""Spark's side (``panestream/spark``: task_functions, processor, compat, failures) has four more."""
KEYS = pa.schema([("key", pa.string())])


class State(dict):
    """A store that is not the package's own, as Spark's is not."""

    micro_batch = None

    def get(self, space, key):
        return super().get((space, key))

    def put(self, space, key, value):
        self[space, key] = value

    def remove(self, space, key):
        del self[space, key]


def files_run_by(call):
    """The files of the package in which a function runs while ``call`` does."""
    paths = set()

    def look(frame, event, _):
        # Code that runs when a module is imported is not part of the path of a row.
        if event == "call" and frame.f_code.co_name != "<module>":
            paths.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(Path(path).relative_to(PACKAGE).as_posix() for path in paths if path.startswith(str(PACKAGE)))


ROWS = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("v", pa.int64())])
RESULTS = pa.schema([("n", pa.int64())])
WINDOWS = {
    "sliding aggregate": WindowQuery(SlidingEventTimeWindows(60, 10)),
    "apply": WindowQuery(TumblingEventTimeWindows(60)),
    "process": WindowQuery(EventTimeSessionWindows(60)),
}


def apply(key, window, rows):
    return [len(rows)]


def process(key, context, rows):
    return [len(rows)]


def plan_of(way):
    windows = WINDOWS[way]
    if way == "sliding aggregate":
        operator = plan_aggregates(windows, (agg.sum("v").alias("total"),), {"v": pa.int64()}, KEYS)
    else:
        function = KeepRows(applied(apply) if way == "apply" else processed(process))
        operator = plan_functions(windows, function, RESULTS, ROWS, "function", KEYS)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5 us")
    rows = ROWS if operator.capabilities.takes_rows else None
    return WindowPlan(("key",), KEYS, windows.assigner, operator, strategy, "ts", groups=1, row_schema=rows)


def micro_batch(plan, state, first, emitted):
    """Run one micro-batch through the engine: pack it for the exchange, run its key group, and encode rows for the sinks."""
    times = np.arange(first, first + 100)
    rows = pa.table({"ts": times, "key": pa.array([f"k{time % 3}" for time in times]), "v": times})
    if plan.carries_rows:
        rows = pa.table(
            [*rows.columns[:2], pa.StructArray.from_arrays([each.combine_chunks() for each in rows.columns], fields=list(ROWS))],
            ["ts", "key", "row"],
        )
    columns = PackColumns((pa.string(),), () if plan.carries_rows else (pa.int64(),), row=2 if plan.carries_rows else None)
    parts = [part for _, part in pack(plan, columns, rows.to_batches())]
    emitted += bodies(run_micro_batch(plan, state, 0, parts))


@pytest.mark.parametrize("way", MOST)
def test_row_passes_at_most_the_allowed_number_of_files(way):
    plan, state, emitted = plan_of(way), State(), []
    micro_batch(plan, state, 0, emitted)
    before = len(emitted)
    files = files_run_by(lambda: micro_batch(plan, state, 200, emitted))
    assert [tag for tag, _ in emitted[before:]].count("main") == 1, "nothing fired: not the whole way was gone"
    assert len(files) <= MOST[way], f"{len(files)} files, at most {MOST[way]}:\n" + "\n".join(files)


def test_files_run_by_lists_the_files_of_called_functions():
    from panestream.windowing.time import to_micros

    assert files_run_by(lambda: to_micros("1 second")) == ["windowing/time.py"]
    assert not files_run_by(lambda: None)
