"""Errors that are visible without Spark: Java without memory, or a Java process that has ended."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from panestream.errors import OperatorError, SinkError
from panestream.spark.failures import of_operator, of_sink, without_internal_traceback
from panestream.spark.query import RunningQuery
from panestream.spark.sinks.debug_and_foreach import ConsoleSink
from panestream.windowing.failures import BAR, WindowFunctionError

OUTPUTS = SimpleNamespace(note_end=lambda spark: None)
"""Outputs of a query that leaves no mark when it ends."""


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("Answer from Java side is empty")]
)
def test_ended_java_process_gives_an_error_with_advice(error):
    class Gone:
        def awaitTermination(self, *_):  # noqa: N802 - Spark's name
            raise error

    with pytest.raises(OperatorError, match=r"Java process has ended .*spark\.driver\.memory.*maxRecordsPerBatch") as caught:
        RunningQuery(Gone(), None, None, None).await_termination()
    assert caught.value.spark_error is error


def test_error_of_python_while_waiting_is_raised_unchanged():
    class Interrupted:
        def awaitTermination(self, *_):  # noqa: N802
            raise KeyError("ours")

    with pytest.raises(KeyError):
        RunningQuery(Interrupted(), None, None, None).await_termination()


def test_await_termination_returns_whether_the_query_has_ended():
    class Ended:
        recentProgress = ()  # noqa: N815

        def __init__(self, ended):
            self.ended = ended

        def awaitTermination(self, *_):  # noqa: N802
            return self.ended

    assert RunningQuery(Ended(None), None, None, OUTPUTS).await_termination() is True
    assert RunningQuery(Ended(True), None, None, OUTPUTS).await_termination(5) is True
    assert RunningQuery(Ended(False), None, None, OUTPUTS).await_termination(0) is False


class Py4jStyleError(Exception):
    """An error in the words of py4j."""


Py4jStyleError.__module__ = "py4j.protocol"


@pytest.mark.parametrize("part", ["operator", "sink"])
def test_out_of_memory_error_of_java_gives_advice(part):
    context = of_operator(7) if part == "operator" else of_sink("late", ConsoleSink(), 7)
    with (
        pytest.raises(
            (OperatorError, SinkError), match=r"in micro-batch 7: Java ran out of memory. .*maxRecordsPerBatch"
        ) as caught,
        context,
    ):
        raise Py4jStyleError("An error occurred\n: java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x")
    assert "\tat" not in str(caught.value)


def test_state_that_spark_cannot_load_gives_advice_and_its_cause():
    said = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030"
    cause = "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/state/0/1/4.changelog at 0"
    with pytest.raises(OperatorError) as caught, of_operator(7):
        raise Py4jStyleError(f"{said}\n\tat org.apache.x\nCaused by: java.io.IOException: x\n{cause}\n\tat java.base/x")
    text = str(caught.value)
    assert "in micro-batch 7: Spark cannot load the state" in text
    assert "put back a copy of the whole checkpoint" in text
    assert text.endswith("loading state.; ChecksumException: Checksum error: file:/c/state/0/1/4.changelog at 0)")


@pytest.mark.parametrize(
    ("deep", "advice"),
    [
        ("Caused by: java.io.IOException: No space left on device", "a disk is full: .*start the query again"),
        ("Caused by: org.apache.spark.SparkException: Python worker failed to connect back.", "PYSPARK_PYTHON must be on"),
    ],
)
def test_known_cause_deep_in_an_error_gives_advice(deep, advice):
    """Also if Spark first reports that state cannot be loaded, which suggests damage."""
    said = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030"
    with pytest.raises(OperatorError, match=rf"in micro-batch 7: .*{advice}") as caught, of_operator(7):
        raise Py4jStyleError(f"{said}\n\tat org.apache.x\n{deep}\n\tat java.base/x")
    text = str(caught.value)
    assert deep.split(": ")[-1].rstrip(".") in text
    assert "damaged" not in text
    assert "\tat" not in text


@pytest.mark.parametrize("ending", [SystemExit(3), GeneratorExit("over")])
def test_function_that_ends_its_worker_is_named_from_sparks_message(ending):
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


def test_interruption_keeps_its_text_for_spark():
    """``query.stop()`` runs in another thread.

    With another text, the waiting thread would get an error although nothing failed.
    """
    error = Py4jStyleError(
        "An error occurred while calling o7.collectToPython.\n: java.lang.InterruptedException\n\tat java.base/x"
    )
    with pytest.raises(Py4jStyleError) as caught, of_operator(7):
        raise error
    assert caught.value is error
    with pytest.raises(Py4jStyleError), of_sink("late", ConsoleSink(), 7):
        raise error
