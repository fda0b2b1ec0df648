"""Spark starts a Python process for the processor in every micro-batch, so the processor must load little."""

import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import TimerValues

from panestream.engine.exchange.group_run import METRICS
from panestream.spark.compat import group_number, group_values
from panestream.spark.operator import processor
from panestream.spark.operator.processor import RestartInfo, SparkState, WindowProcessor
from tests.conformance.executors.processor import MemoryHandle
from tests.engine.exchange.test_exchange import plan


def test_processor_module_imports_no_heavy_package():
    code = (
        "import sys; import pyspark.sql.streaming.transform_with_state_driver_worker; before = set(sys.modules)\n"
        "import panestream.spark.operator.processor\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('panestream')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought, own = (set(eval(line)) for line in done.stdout.splitlines())
    assert own == {"panestream", "panestream.spark", "panestream.spark.operator", "panestream.spark.operator.processor"}
    assert not brought & {"pyarrow", "numpy", "pandas"}


def test_key_group_number_is_found_from_its_integer():
    for groups in (1, 4, 100):
        assert [group_number(groups, value) for value in group_values(groups)] == list(range(groups))


def test_processor_unpickles_its_plan_once(monkeypatch):
    opened = []
    monkeypatch.setattr(processor.pickle, "loads", lambda text: opened.append(text) or pickle_loads(text))
    several = WindowProcessor(plan(groups=3))
    several.init(MemoryHandle())
    for value in group_values(3):
        list(several.handleInputRows((value,), iter([]), TimerValues(0, -1)))
        several.init(MemoryHandle())  # another key group with another state
    assert len(opened) == 1


def test_processor_reports_the_time_of_a_key_group(monkeypatch):
    seconds = iter([10.0, 10.25])
    monkeypatch.setattr(processor.time, "perf_counter", lambda: next(seconds))
    one = WindowProcessor(plan())
    one.init(MemoryHandle())
    (row,) = one.handleInputRows((0,), iter([]), TimerValues(0, -1))
    assert row.tag == METRICS
    assert json.loads(row.body)["operator_us"] == 250_000


def test_processor_without_init_raises():
    early = WindowProcessor(plan())
    for call in (
        lambda: list(early.handleInputRows((0,), iter([]), TimerValues(0, -1))),
        lambda: list(early.handleExpiredTimer((0,), TimerValues(0, -1), None)),
        lambda: early.handleInitialState((0,), Row(space="meta", number=0, value=b""), TimerValues(0, -1)),
    ):
        with pytest.raises(RuntimeError, match=r"^Spark called the processor before init$"):
            call()


def test_entries_of_a_savepoint_become_state_and_timers():
    several, handle = WindowProcessor(plan()), MemoryHandle()
    several.init(handle)
    for space, number, value in (("meta", 0, b"m"), ("panes", 3, b"p"), (None, 1700, b"")):
        several.handleInitialState((0,), Row(space=space, number=number, value=value), TimerValues(0, -1))
    assert list(handle.listTimers()) == [1700]
    assert [several._state.get(*entry) for entry in (("meta", 0), ("panes", 3), ("panes", 0))] == [b"m", b"p", None]


class Counting(MemoryHandle):
    """Record changes of timers."""

    def __init__(self, *timers):
        super().__init__(timers=set(timers))
        self.told = []

    def registerTimer(self, expiry):  # noqa: N802 - Spark's name
        self.told.append(("set", expiry))
        super().registerTimer(expiry)

    def deleteTimer(self, expiry):  # noqa: N802 - Spark's name
        self.told.append(("deleted", expiry))
        super().deleteTimer(expiry)


@pytest.mark.parametrize(
    ("there", "expiry", "told"),
    [
        ((), None, []),
        ((), 5, [("set", 5)]),
        ((5,), 5, []),
        ((5,), None, [("deleted", 5)]),
        ((4,), 5, [("deleted", 4), ("set", 5)]),
        ((4, 5, 6), 5, [("deleted", 4), ("deleted", 6)]),
    ],
)
def test_key_group_has_one_timer_which_is_set_once(there, expiry, told):
    handle, one = Counting(*there), WindowProcessor(plan())
    one.init(handle)
    one._wake_up_at(expiry)
    assert handle.told == told
    assert list(handle.listTimers()) == ([] if expiry is None else [expiry])


def test_micro_batch_planned_before_the_run_belongs_to_the_run_before():
    found = RestartInfo("second", 7, "first")
    assert [found.planned_in(number) for number in (6, 7, 8)] == ["first", "first", "second"]
    assert RestartInfo("first").planned_in(0) == "first"


@pytest.mark.parametrize(("number", "planned_in"), [("7", "first"), ("8", "second")])
def test_number_of_the_micro_batch_decides_which_run_planned_it(monkeypatch, number, planned_in):
    monkeypatch.setattr(
        processor.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty={"streaming.sql.batchId": number}.get)
    )
    known = WindowProcessor(plan(), RestartInfo("second", 7, "first"))
    known.init(MemoryHandle())
    assert known._which_run("this", TimerValues(0, -1)) == {"run": "this", "planned_in": planned_in}


def test_processing_time_decides_which_run_planned_a_micro_batch_without_number():
    by_event_time, by_the_clock = WindowProcessor(plan(), RestartInfo("second", 7, "first")), WindowProcessor(plan())
    by_the_clock._wakes_up = True
    for one in (by_event_time, by_the_clock):
        one.init(MemoryHandle())
        one._begun = 5_000
    times = [TimerValues(time, -1) for time in (4_999, 5_000, 5_001)]
    assert [by_the_clock._which_run("this", time)["planned_in"] for time in times] == ["before this", "this", "this"]
    assert [by_event_time._which_run("this", time)["planned_in"] for time in times] == ["this", "this", "this"]


def test_state_entries_are_read_written_and_removed_by_space_and_key():
    handle = MemoryHandle()
    state = SparkState(handle)
    state.put("panes", 1, b"one")
    state.put("panes", 2, b"two")
    state.put("panes", 1, b"new")
    state.remove("panes", 2)
    assert handle.values == {("panes", 1): b"new"}
    assert (state.get("panes", 1), state.get("panes", 2), state.get("meta", 1)) == (b"new", None, None)
    assert state.micro_batch is None  # no task runs


pickle_loads = pickle.loads
