"""The columns of the views of state, and nulls if an operator does not know a value."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, instants, reached_by, share
from panestream.engine.storage.state_tables import StateTables
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP
from tests.comparison import harness

TEN = TumblingEventTimeWindows(10)
SEVERAL = SeveralWindows.of({"short": TEN, "long": TumblingEventTimeWindows(20)})
KEYS = [pa.array(["a", None])]


def schemas_of(assigner=TEN, rows=None):
    plan = harness.Query(WindowQuery(assigner), (agg.count().alias("n"),)).columnar()
    return ViewSchemas(plan, 3, rows)


def at(micros):
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)


def ints(*values):
    return np.array(values, np.int64)


def window_rows(**more):
    return WindowRows(KEYS, 2, starts=pa.array([0, 10]), ends=pa.array([10, 20]), **more)


NOTHING = dict.fromkeys(("results", "contents", "rows", "firings", "last_firing", "due", "closes", "bytes", "window"))
BOUNDS = [
    {"key": {"key": "a"}, "window_start": at(0), "window_end": at(10), "operator": "aligned panes", "key_group": 3},
    {"key": {"key": None}, "window_start": at(10), "window_end": at(20), "operator": "aligned panes", "key_group": 3},
]


def test_unknown_values_of_windows_are_null():
    schemas = schemas_of()
    windows_view = schemas.windows_of(window_rows())
    assert windows_view.schema == schemas.windows
    assert windows_view.to_pylist() == [NOTHING | bounds for bounds in BOUNDS]
    (row,) = schemas.windows_of(WindowRows([pa.array(["a"])], 1)).to_pylist()
    assert (row["window_start"], row["window_end"]) == (None, None), "the global window"


def test_known_values_of_windows_are_shown():
    windows_view = schemas_of().windows_of(
        window_rows(
            results=[pa.array([4, 5])],
            contents=pa.array(["x", None]),
            rows=ints(4, 5),
            firings=ints(0, 2),
            last_firing=ints(-1, 0),
            due=ints(9, MAX_TIMESTAMP),
            closes=ints(MAX_TIMESTAMP, 19),
            size=ints(70, 80),
        )
    )
    first = {"results": {"n": 4}, "contents": "x", "rows": 4, "firings": 0, "last_firing": None, "due": at(9), "closes": None}
    second = {"results": {"n": 5}, "contents": None, "rows": 5, "firings": 2, "last_firing": "early", "due": None}
    assert windows_view.to_pylist() == [
        NOTHING | BOUNDS[0] | first | {"bytes": 70},
        NOTHING | BOUNDS[1] | second | {"closes": at(19), "bytes": 80},
    ]


@pytest.mark.parametrize(("assigner", "labels"), [(SEVERAL, ["long", "short"]), (TEN, [None, None])])
def test_windows_view_has_the_labels_of_several_windows(assigner, labels):
    windows_view = schemas_of(assigner).windows_of(window_rows(kinds=ints(1, 0)))
    assert windows_view["window"].to_pylist() == labels


def test_views_without_keys_have_no_key_column():
    schemas = schemas_of()
    schemas = replace(schemas, plan=replace(schemas.plan, keys=(), key_schema=pa.schema([])))
    views = schemas.with_windows(schemas.windows_of(replace(window_rows(due=ints(9, 19)), keys=[])))
    for table in (views.windows, views.elements, views.user_state, views.timers):
        assert "key" not in table.column_names
    assert schemas.key([]) is None
    assert views.timers.num_rows == 2


@pytest.mark.parametrize(
    ("assigner", "kind"), [(TEN, "event"), (TumblingProcessingTimeWindows(10), "processing")], ids=["event", "processing"]
)
def test_each_due_window_has_a_timer(assigner, kind):
    schemas = schemas_of(assigner)
    views = schemas.with_windows(schemas.windows_of(window_rows(due=ints(MAX_TIMESTAMP, 19))))
    bounds = {"key": {"key": None}, "window_start": at(10), "window_end": at(20)}
    assert views.timers.to_pylist() == [bounds | {"kind": kind, "time": at(19), "key_group": 3}]
    assert (views.elements.num_rows, views.user_state.num_rows) == (0, 0)


def test_views_of_elements_user_state_and_timers_are_passed_through():
    schemas = schemas_of(rows=harness.KEYS)
    windows = schemas.windows_of(window_rows(due=ints(9, 19)))
    timers = schemas.timers_of(KEYS, 2, {"kind": pa.array(["event", "event"]), "time": pa.array([7, 8])})
    states = schemas.user_state_of(KEYS, 2, {"of": pa.array(["key", "window"]), "name": pa.array(["x", "y"])})
    columns = {"place": pa.array([0, 1]), "time": pa.array([4, 5])}
    elements = schemas.elements_of(KEYS, 2, columns, [pa.array(["r", "s"])])
    views = schemas.with_windows(windows, elements=elements, user_state=states, timers=timers)
    assert (views.windows, views.elements, views.user_state, views.timers) == (windows, elements, states, timers)
    unbound = {"window_start": None, "window_end": None, "key_group": 3}
    assert timers.to_pylist()[0] == unbound | {"key": {"key": "a"}, "kind": "event", "time": at(7)}
    assert states.to_pylist()[1] == unbound | {"key": {"key": None}, "of": "window", "name": "y", "value": None}
    assert elements.to_pylist()[1] == {
        "key": {"key": None},
        "windows": None,
        "place": 1,
        "time": at(5),
        "element": {"key": "s"},
        "value": None,
        "key_group": 3,
    }
    assert schemas.elements_of(KEYS, 2, columns, None)["element"].to_pylist() == [None, None]


@pytest.mark.parametrize("rows", [None, pa.schema([])], ids=["no rows", "rows without columns"])
def test_elements_view_has_no_rows_if_none_are_kept(rows):
    schemas = schemas_of(rows=rows)
    assert "element" not in schemas.elements.names
    windows_view = schemas.elements_of(KEYS, 2, {"value": pa.array(["x", "y"])}, [])
    assert (windows_view["value"].to_pylist(), windows_view["key_group"].to_pylist()) == (["x", "y"], [3, 3])


def test_instant_at_the_end_of_time_is_null():
    assert instants(None) is None
    assert instants(ints(5, MAX_TIMESTAMP)).to_pylist() == [at(5), None]
    assert instants(pa.array([5, None])).to_pylist() == [at(5), None]


def test_reached_time_is_the_watermark_or_the_clock():
    saved = StateTables({"clock": 100, "watermarks": {"watermark": 7}}, {})
    assert reached_by(saved, by_processing_time=False) == 7
    assert reached_by(saved, by_processing_time=True) == 99


@pytest.mark.parametrize(
    ("size", "parts", "shares"),
    [(10, (1, 1, 2), [2, 2, 4]), (11, (1,), [11]), (3, (2, 2), [0, 0]), (5, (0, 0), [0, 0]), (5, (), []), (0, (1, 2), [0, 0])],
)
def test_bytes_of_state_are_shared_among_windows_by_rows(size, parts, shares):
    assert share(size, ints(*parts)).tolist() == shares
