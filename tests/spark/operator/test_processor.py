"""Spark starts a Python for the processor in every micro-batch: it must not load what it does not need."""

import pickle
import subprocess
import sys

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import TimerValues

from panestream.spark.operator import processor
from panestream.spark.operator.placement import group_number, group_values
from panestream.spark.operator.processor import WindowProcessor
from tests.conformance.executors.processor import MemoryHandle
from tests.engine.exchange.test_exchange import plan


def test_the_processor_brings_in_nothing_heavy():
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


def test_a_key_group_has_the_number_of_its_integer():
    for groups in (1, 4, 100):
        assert [group_number(groups, value) for value in group_values(groups)] == list(range(groups))


def test_a_processor_opens_its_plan_once(monkeypatch):
    opened = []
    monkeypatch.setattr(processor.pickle, "loads", lambda text: opened.append(text) or pickle_loads(text))
    several = WindowProcessor(plan(groups=3))
    several.init(MemoryHandle())
    for value in group_values(3):
        list(several.handleInputRows((value,), iter([]), TimerValues(0, -1)))
        several.init(MemoryHandle())  # another key group, another state
    assert len(opened) == 1


def test_a_processor_that_was_not_given_its_state_says_so():
    early = WindowProcessor(plan())
    for call in (
        lambda: list(early.handleInputRows((0,), iter([]), TimerValues(0, -1))),
        lambda: list(early.handleExpiredTimer((0,), TimerValues(0, -1), None)),
        lambda: early.handleInitialState((0,), Row(space="meta", number=0, value=b""), TimerValues(0, -1)),
    ):
        with pytest.raises(RuntimeError, match=r"^Spark called the processor before init$"):
            call()


def test_what_a_savepoint_has_becomes_entries_of_the_state_and_timers():
    several, handle = WindowProcessor(plan()), MemoryHandle()
    several.init(handle)
    for space, number, value in (("meta", 0, b"m"), ("panes", 3, b"p"), (None, 1700, b"")):
        several.handleInitialState((0,), Row(space=space, number=number, value=value), TimerValues(0, -1))
    assert list(handle.listTimers()) == [1700]
    assert [several._state.get(*entry) for entry in (("meta", 0), ("panes", 3), ("panes", 0))] == [b"m", b"p", None]


pickle_loads = pickle.loads
