"""Errors of panestream that Spark's message about a failed query contains. Without Spark."""

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from panestream.errors import EnvironmentNotReadyError, InvalidEventTimeError, OperatorError
from panestream.spark.failures import _NO_STATE, _REASONS, known_reason, of_operator, own_error, writing

QUOTED = (
    "=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\nLogical Plan:\n"
    "~Project [CASE WHEN isnull(t#1) THEN t#2 ELSE cast(raise_error(USER_RAISED_EXCEPTION, map(errorMessage, "
    "concat(panestream.errors.InvalidEventTimeError: a row has an unusable event time in 't in seconds': , "
    "substring(cast(t#1 as string), 1, 100), . Filter such rows out)), NullType) as bigint) END AS time#3]\n"
)
"""The plan of a query whose event time is not a timestamp. Spark quotes it below any error of the stream."""


def test_error_name_in_a_quoted_plan_is_ignored():
    assert own_error(f"java.io.FileNotFoundException: offsets/3 does not exist\n{QUOTED}") is None


def test_raised_error_is_found_next_to_a_quoted_plan():
    said = "panestream.errors.InvalidEventTimeError: a row has an unusable event time in 't': 'x'. Filter such rows out"
    for text in (f"[USER_RAISED_EXCEPTION] {said} SQLSTATE: P0001\n\n{QUOTED}", f"{QUOTED}\n[USER_RAISED_EXCEPTION] {said}"):
        found = own_error(text)
        assert isinstance(found, InvalidEventTimeError)
        assert str(found) == said.partition(": ")[2]


class OfJava(PySparkException):
    """An error that PySpark did not translate, so Java's text differs from Python's."""

    def __init__(self, text, java):
        super().__init__(text)
        self.java_exception = SimpleNamespace(getMessage=lambda: java)

    def __str__(self):
        return self.args[0]


@pytest.mark.parametrize("sign", _REASONS)
def test_known_cause_is_found_at_any_depth(sign):
    def why(error):
        with pytest.raises(OperatorError) as raised, of_operator(7):
            raise error
        return str(raised.value)

    begins = f"the windows could not be computed in micro-batch 7: {_REASONS[sign]} ("
    assert why(OfJava("An error occurred", f"Job aborted\nCaused by: {sign}")) == f"{begins}{sign}; Job aborted)"
    assert why(OfJava(f"An error occurred\nCaused by: {sign}", "Job aborted")) == f"{begins}{sign}; Job aborted)"
    assert why(OfJava("x", f"{sign}: /tmp")) == f"{begins}{sign}: /tmp)"
    assert why(OfJava("x", "Job aborted")) == "the windows could not be computed in micro-batch 7: Job aborted"


def test_missing_state_is_explained_with_sparks_message_and_cause():
    gone = "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart the query.\nStateful operators: [(0)]"
    assert known_reason(PySparkException(gone)) == f"{_NO_STATE} ({gone.splitlines()[0]})"
    lost = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.\nCaused by: java.io.FileNotFoundException: 3.changelog"
    assert known_reason(PySparkException(lost)) == f"{_NO_STATE} ({lost.splitlines()[0]}; FileNotFoundException: 3.changelog)"
    assert known_reason(PySparkException("the topic is gone")) is None


def test_folder_that_spark_cannot_write_is_named():
    full, other = PySparkException("Job aborted\nCaused by: No space left on device"), PySparkException("rows are odd")
    with pytest.raises(EnvironmentNotReadyError, match=r"^Spark cannot write /sp: a disk is full: ") as raised, writing("/sp"):
        raise full
    assert raised.value.spark_error is full
    with pytest.raises(PySparkException, match="rows are odd"), writing("/sp"):
        raise other
    with (
        pytest.raises(EnvironmentNotReadyError, match=r"^Spark cannot write /sp: rows are odd$"),
        writing("/sp", any_reason=True),
    ):
        raise other
    gone = PySparkException("[CANNOT_LOAD_STATE_STORE] x")
    with pytest.raises(PySparkException) as raised, writing("/sp"):
        raise gone
    assert raised.value is gone
