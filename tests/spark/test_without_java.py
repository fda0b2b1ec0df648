"""Errors that need no Spark to be seen: Java without memory, or without life."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from panestream.errors import OperatorError, SinkError
from panestream.spark.failures import of_operator, of_sink
from panestream.spark.query import RunningQuery
from panestream.spark.sinks import ConsoleSink


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


class NoMemoryError(Exception):
    """As py4j words it."""


NoMemoryError.__module__ = "py4j.protocol"


@pytest.mark.parametrize("part", ["operator", "sink"])
def test_want_of_memory_becomes_advice(part):
    context = of_operator(7) if part == "operator" else of_sink("late", ConsoleSink(), 7)
    with (
        pytest.raises(
            (OperatorError, SinkError), match=r"in micro-batch 7: Java ran out of memory: .*maxRecordsPerBatch"
        ) as caught,
        context,
    ):
        raise NoMemoryError("An error occurred\n: java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x")
    assert "\tat" not in str(caught.value)
