"""Errors that need no Spark to be seen: Java without memory, or without life."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from panestream.errors import OperatorError, SinkError
from panestream.spark.failures import of_operator, of_sink, without_internal_traceback
from panestream.spark.query import RunningQuery
from panestream.spark.sinks.others import ConsoleSink
from panestream.windowing.failures import BAR, WindowFunctionError

OUTPUTS = SimpleNamespace(note_end=lambda spark: None)
"""Outputs of a query that leaves no mark when it ends."""


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("Answer from Java side is empty")]
)
def test_a_java_that_is_gone_is_said_to_be_with_what_to_do(error):
    class Gone:
        def awaitTermination(self, *_):  # noqa: N802 - Spark's name
            raise error

    with pytest.raises(OperatorError, match=r"Java process has ended .*spark\.driver\.memory.*maxRecordsPerBatch") as caught:
        RunningQuery(Gone(), None, None, None).await_termination()
    assert caught.value.spark_error is error


def test_an_error_of_python_while_waiting_is_left_alone():
    class Interrupted:
        def awaitTermination(self, *_):  # noqa: N802
            raise KeyError("ours")

    with pytest.raises(KeyError):
        RunningQuery(Interrupted(), None, None, None).await_termination()


def test_a_query_that_has_ended_is_said_to_have():
    class Ended:
        recentProgress = ()  # noqa: N815

        def __init__(self, ended):
            self.ended = ended

        def awaitTermination(self, *_):  # noqa: N802
            return self.ended

    assert RunningQuery(Ended(None), None, None, OUTPUTS).await_termination() is True
    assert RunningQuery(Ended(True), None, None, OUTPUTS).await_termination(5) is True
    assert RunningQuery(Ended(False), None, None, OUTPUTS).await_termination(0) is False


class OfSparkError(Exception):
    """As py4j words it."""


OfSparkError.__module__ = "py4j.protocol"


@pytest.mark.parametrize("part", ["operator", "sink"])
def test_want_of_memory_becomes_advice(part):
    context = of_operator(7) if part == "operator" else of_sink("late", ConsoleSink(), 7)
    with (
        pytest.raises(
            (OperatorError, SinkError), match=r"in micro-batch 7: Java ran out of memory: .*maxRecordsPerBatch"
        ) as caught,
        context,
    ):
        raise OfSparkError("An error occurred\n: java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x")
    assert "\tat" not in str(caught.value)


def test_state_that_spark_cannot_load_becomes_advice_with_its_cause():
    said = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030"
    cause = "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/state/0/1/4.changelog at 0"
    with pytest.raises(OperatorError) as caught, of_operator(7):
        raise OfSparkError(f"{said}\n\tat org.apache.x\nCaused by: java.io.IOException: x\n{cause}\n\tat java.base/x")
    text = str(caught.value)
    assert "in micro-batch 7: Spark cannot load the state" in text
    assert "put back a copy of the whole checkpoint" in text
    assert text.endswith("loading state.; ChecksumException: Checksum error: file:/c/state/0/1/4.changelog at 0)")


@pytest.mark.parametrize(
    ("deep", "advice"),
    [
        ("Caused by: java.io.IOException: No space left on device", "a disk is full: .*start the query again"),
        ("Caused by: org.apache.spark.SparkException: Python worker failed to connect back.", "PYSPARK_PYTHON must name"),
    ],
)
def test_what_is_deep_in_the_causes_becomes_advice(deep, advice):
    """Also where Spark says first that state cannot be loaded, which sounds like damage."""
    said = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030"
    with pytest.raises(OperatorError, match=rf"in micro-batch 7: .*{advice}") as caught, of_operator(7):
        raise OfSparkError(f"{said}\n\tat org.apache.x\n{deep}\n\tat java.base/x")
    text = str(caught.value)
    assert deep.split(": ")[-1].rstrip(".") in text
    assert "damaged" not in text
    assert "\tat" not in text


@pytest.mark.parametrize("ending", [SystemExit(3), GeneratorExit("over")])
def test_a_function_that_ends_its_worker_is_found_again_in_what_spark_says(ending):
    def users_function():
        if isinstance(ending, SystemExit):
            sys.exit(3)
        raise ending

    with pytest.raises(WindowFunctionError) as caught, without_internal_traceback():
        users_function()
    name = type(ending).__module__ + "." + type(ending).__name__
    worded = f"Traceback (most recent call last):\npanestream.windowing.failures.WindowFunctionError: {caught.value}\n\tat java"
    found = str(WindowFunctionError.from_text(worded))
    assert found.startswith(f"a function in the windows raised {name.removeprefix('builtins.')}: {ending}\n{BAR}Traceback")
    assert "in users_function" in found


def test_an_interruption_keeps_the_words_by_which_spark_knows_it():
    """``query.stop()`` in another thread: else whoever waits for the query gets an error, though nothing failed."""
    error = OfSparkError(
        "An error occurred while calling o7.collectToPython.\n: java.lang.InterruptedException\n\tat java.base/x"
    )
    with pytest.raises(OfSparkError) as caught, of_operator(7):
        raise error
    assert caught.value is error
    with pytest.raises(OfSparkError), of_sink("late", ConsoleSink(), 7):
        raise error
